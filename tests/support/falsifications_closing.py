"""More ways to cook the books: from a voucher's close to money outside, and the log.

As `tests.support.falsifications`: the books stay consistent with themselves as far as
their owner can make them. The ledger's own key may sign again what the ledger signs.
"""

# ruff: noqa: S608  every part of a statement is written here
from hashlib import sha256

from ledger.log.checkpoint import Checkpoint, log_key, log_origin, sign_checkpoint
from ledger.log.entry import entry_hash
from ledger.log.tree import root_of
from ledger.policy import Policy, sign_policy
from tests.support.cook import FALSIFICATIONS, Cook, falsification

__all__ = ["FALSIFICATIONS"]

_FIRST = "voucher_id = (select voucher_id from closing where log_index = 0)"


def _of_code(cook: Cook, code: str, log_index: int) -> str:
    """Return the condition for a transfer of one closed voucher."""
    closed = "select content_hash from closing where log_index = ?"
    name = cook.row(closed, log_index)["content_hash"]
    return f"code = '{code}' and reference = x'{name.hex()}'"


# -- closings, holdbacks, policies ---------------------------------------------


@falsification
def _a_higher_fee(cook: Cook) -> None:
    """The worker's rest is smaller by as much; transfers and balances follow."""
    cook.sql(
        "update closing set fee_uc = fee_uc + 1, net_uc = net_uc - 1 where " + _FIRST
    )
    for code, sign in (("fee", "+"), ("settle", "-")):
        which = _of_code(cook, code, 0)
        cook.sql(f"update transfer set amount_uc = amount_uc {sign} 1 where {which}")
    cook.rebalance()


@falsification
def _a_fee_for_what_closed_before(cook: Cook) -> None:
    """The second policy, properly signed, for a voucher that closed before it."""
    newest = "(select hash from policy order by seq desc limit 1)"
    cook.sql(f"update closing set policy_hash = {newest} where log_index = 0")


@falsification
def _terms_that_nobody_signed(cook: Cook) -> None:
    row = cook.row("select * from policy where seq = 1")
    raw = row["raw"][:5] + (0).to_bytes(4, "big") + row["raw"][9:]
    cook.sql("update policy set raw = ? where seq = 1", raw)


@falsification
def _terms_signed_afterwards(cook: Cook) -> None:
    """The ledger signs a policy with a shorter window and dates it back."""
    row = cook.row("select * from policy where seq = 1")
    old = Policy.parse(row["raw"])
    new = Policy(
        fee_ppm=old.fee_ppm,
        holdback_ppm=old.holdback_ppm,
        holdback_us=old.holdback_us,
        dispute_us=old.dispute_us // 2,
        answer_us=old.answer_us,
        since_us=old.since_us,
    )
    signature = sign_policy(new.pack(), cook.world.ledger.sign)
    cook.sql(
        "update policy set raw = ?, hash = ?, signature = ? where seq = 1",
        new.pack(),
        new.content_hash,
        signature,
    )
    cook.sql(
        "update closing set policy_hash = ? where policy_hash = ?",
        new.content_hash,
        row["hash"],
    )


@falsification
def _released_before_the_window_was_over(cook: Cook) -> None:
    at_us = cook.row("select closed_us + 1 as us from closing where log_index = 10")
    cook.sql("update closing set released_us = ? where log_index = 10", at_us["us"])
    which = _of_code(cook, "settle", 10)
    cook.sql(f"update transfer set posted_us = ? where {which}", at_us["us"])


@falsification
def _released_without_a_transfer(cook: Cook) -> None:
    cook.remove(_of_code(cook, "settle", 10))


@falsification
def _released_twice(cook: Cook) -> None:
    row = cook.row("select * from closing where log_index = 10")
    worker = cook.row("select worker from voucher where id = ?", row["voucher_id"])[0]
    sides = ((worker, "worker_pending"), (worker, "worker_available"))
    cook.post("settle", b"again", sides, 1, row["content_hash"])


@falsification
def _a_holdback_is_given_back_early(cook: Cook) -> None:
    row = cook.row("select * from closing where holdback = 'held'")
    worker = cook.row("select worker from voucher where id = ?", row["voucher_id"])[0]
    now_us = cook.row("select max(posted_us) from transfer")[0]
    sides = ((worker, "worker_held"), (worker, "worker_available"))
    cook.post("unhold", row["content_hash"], sides, row["held_uc"], row["content_hash"])
    cook.sql(
        "update closing set holdback = 'released', holdback_us = ? "
        "where holdback = 'held'",
        now_us,
    )


@falsification
def _a_holdback_is_taken_without_a_reason(cook: Cook) -> None:
    row = cook.row("select * from closing where holdback = 'held'")
    worker = cook.row("select worker from voucher where id = ?", row["voucher_id"])[0]
    now_us = cook.row("select max(posted_us) from transfer")[0]
    sides = ((worker, "worker_held"), (bytes(32), "penalty"))
    cook.post(
        "forfeit", row["content_hash"], sides, row["held_uc"], row["content_hash"]
    )
    cook.sql(
        "update closing set holdback = 'forfeited', holdback_us = ? "
        "where holdback = 'held'",
        now_us,
    )


@falsification
def _a_cheat_keeps_the_holdback(cook: Cook) -> None:
    """The forfeiting is undone, as if its time had gone by in peace."""
    row = cook.row("select * from closing where holdback = 'forfeited' order by 1 desc")
    worker = cook.row("select worker from voucher where id = ?", row["voucher_id"])[0]
    cook.sql(
        "update closing set holdback = 'released', holdback_us = holdback_due_us "
        "where voucher_id = ?",
        row["voucher_id"],
    )
    which = _of_code(cook, "forfeit", row["log_index"])
    cook.sql(
        f"update transfer set code = 'unhold', credit_id = ? where {which}",
        cook.account(worker, "worker_available"),
    )
    cook.rebalance()


@falsification
def _a_proof_of_cheating_disappears(cook: Cook) -> None:
    cook.sql("delete from equivocation")


@falsification
def _a_proof_that_proves_nothing(cook: Cook) -> None:
    """The second body was signed by nobody."""
    row = cook.row("select * from equivocation where signer = worker")
    raw = row["second_raw"][:-1] + bytes([row["second_raw"][-1] + 1])
    bodies = sha256(row["first_raw"]).digest() + sha256(raw).digest()
    named = b"p2pmoe/equivocation/v1\0" + row["signer"] + bodies
    cook.sql(
        "update equivocation set second_raw = ?, digest = ? where digest = ?",
        raw,
        sha256(named).digest(),
        row["digest"],
    )


@falsification
def _an_expert_gets_the_pay_of_another(cook: Cook) -> None:
    """The sums over all experts of the voucher stay."""
    pair = cook.db.execute(f"select * from voucher_expert where {_FIRST}").fetchmany(2)
    for row, sign in zip(pair, ("+", "-"), strict=True):
        cook.sql(
            f"update voucher_expert set amount_uc = amount_uc {sign} 1 where "
            "voucher_id = ? and layer = ? and expert = ?",
            row["voucher_id"],
            row["layer"],
            row["expert"],
        )


@falsification
def _a_final_of_one_side_is_taken_as_signed(cook: Cook) -> None:
    cook.sql("update one_sided set state = 'signed' where state = 'expired'")


@falsification
def _leaves_are_thrown_away_before_their_time(cook: Cook) -> None:
    path = cook.folder / "leaves" / "00000001.leaves"
    digest = sha256(path.read_bytes()).digest()
    now_us = cook.row("select max(posted_us) from transfer")[0]
    cook.sql("insert into leaf_file_state values (1, 'pruned', ?, ?)", digest, now_us)
    path.with_suffix(".pruned").write_text(f"{digest.hex()}\n", encoding="ascii")
    path.unlink()


# -- disputes ------------------------------------------------------------------


@falsification
def _a_lost_dispute_is_called_dismissed(cook: Cook) -> None:
    cook.sql("update dispute set state = 'dismissed' where id = 2")


@falsification
def _a_verdict_before_the_time_was_over(cook: Cook) -> None:
    """The worker had a day to answer."""
    cook.sql("update dispute set decided_us = answer_due_us - 1 where state = 'upheld'")


@falsification
def _a_referee_who_found_the_opposite(cook: Cook) -> None:
    cook.sql(
        "update dispute set verdict = 'recomputed 00000000000000000000000000000000 "
        "by a friend' where id = 1"
    )


@falsification
def _an_answer_that_opens_something_else(cook: Cook) -> None:
    """Signed by nobody, of course."""
    cook.sql(
        "update dispute set answer = cast(substr(answer, 1, length(answer) - 1) || "
        "x'00' as blob) where id = 1"
    )


@falsification
def _a_claim_about_another_voucher(cook: Cook) -> None:
    cook.sql("update dispute set voucher_id = 1 where id = 5")


@falsification
def _a_dispute_disappears(cook: Cook) -> None:
    """The one that reversed a voucher."""
    cook.sql("delete from dispute where state = 'upheld'")


# -- the log -------------------------------------------------------------------


def _flip(cook: Cook, name: str) -> None:
    path = cook.folder / "log" / name
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 3] ^= 4
    path.write_bytes(raw)


@falsification
def _one_bit_of_a_tile(cook: Cook) -> None:
    _flip(cook, "tile/0/000.p/12")


@falsification
def _one_bit_of_an_entry(cook: Cook) -> None:
    _flip(cook, "tile/entries/000.p/12")


@falsification
def _a_tile_is_gone(cook: Cook) -> None:
    (cook.folder / "log/tile/0/000.p/12").unlink()


@falsification
def _a_tile_goes_on_after_its_hashes(cook: Cook) -> None:
    """No reader of the log takes it: its length is not the tile's."""
    with (cook.folder / "log/tile/0/000.p/12").open("ab") as tile:
        tile.write(bytes(32))


@falsification
def _two_entries_change_places(cook: Cook) -> None:
    """In the database alone; closed at one instant, so even time fits."""
    cook.sql("update closing set log_index = 99 where log_index = 1")
    cook.sql("update closing set log_index = 1 where log_index = 2")
    cook.sql("update closing set log_index = 2 where log_index = 99")


def _signed_head(cook: Cook, size: int, root: bytes) -> bytes:
    origin, ledger = log_origin(cook.world.network.id), cook.world.ledger
    key = log_key(cook.world.network.id, ledger.id)
    return sign_checkpoint(Checkpoint(origin, size, root), key, ledger.sign).pack()


@falsification
def _a_second_history_under_the_ledgers_key(cook: Cook) -> None:
    """An old checkpoint of other entries: what a split view would show."""
    root = root_of([entry_hash(b"another history")] * 6)
    note = _signed_head(cook, 6, root)
    cook.sql("update checkpoint set root = ?, note = ? where size = 6", root, note)


@falsification
def _the_log_shows_less_than_it_signed(cook: Cook) -> None:
    note = cook.row("select note from checkpoint where size = 6")["note"]
    (cook.folder / "log/checkpoint").write_bytes(note)


@falsification
def _the_log_shows_more_than_the_books(cook: Cook) -> None:
    """The database is of an earlier day than the log."""
    note = _signed_head(cook, 13, bytes(32))
    (cook.folder / "log/checkpoint").write_bytes(note)


@falsification
def _a_checkpoint_signed_by_somebody_else(cook: Cook) -> None:
    row = cook.row("select * from checkpoint where size = 12")
    origin = log_origin(cook.world.network.id)
    market = cook.world.market
    key = log_key(cook.world.network.id, market.id)
    head = Checkpoint(origin, 12, row["root"])
    note = sign_checkpoint(head, key, market.sign).pack()
    cook.sql("update checkpoint set note = ? where size = 12", note)


@falsification
def _a_witness_who_saw_nothing(cook: Cook) -> None:
    """A line for another checkpoint."""
    cook.sql(
        "update cosignature set line = (select line from cosignature where size = 9) "
        "where size = 11"
    )


# -- periods and payouts -------------------------------------------------------


@falsification
def _a_closed_month_gets_another_credit(cook: Cook) -> None:
    """Everything is consistent; but November was closed."""
    cook.sql("update transfer set seq = seq + 1000")
    cook.sql("update transfer set seq = seq - 999 where seq > 1002")
    cook.sql("update transfer set seq = seq - 1000 where seq > 1000")
    backbone = cook.world.backbone.id
    sides = ((bytes(32), "external"), (backbone, "client_deposit"))
    cook.post("fund", backbone + b"late", sides, 7, b"late")
    second = cook.row("select posted_us from transfer where seq = 2")["posted_us"]
    cook.sql(
        "update transfer set seq = 3, posted_us = ? where reference = x'6c617465'",
        second,
    )


@falsification
def _a_month_of_other_statements(cook: Cook) -> None:
    cook.sql("update period set statement_root = randomblob(32) where id = 1")


@falsification
def _a_month_that_began_later(cook: Cook) -> None:
    """What moved on its first day is in no month."""
    cook.sql(
        "update period set name = '2026-11-02..2026-11-30', "
        "start_us = start_us + 86400000000 where id = 1"
    )


@falsification
def _a_month_is_opened_again(cook: Cook) -> None:
    cook.sql("delete from period where id = 1")


_PAID = "state = 'confirmed'"


@falsification
def _more_money_than_credits(cook: Cook) -> None:
    cook.sql(f"update payout set amount_minor = amount_minor * 10 where {_PAID}")


@falsification
def _a_payout_of_more_than_was_released(cook: Cook) -> None:
    """Credits of December in November's payout; every sum fits."""
    row = cook.row("select * from payout where state = 'sent'")
    cook.sql(
        "update payout set amount_uc = amount_uc + 60, amount_minor = amount_minor + 2 "
        "where id = ?",
        row["id"],
    )
    later = cook.row(
        "select id from payout where account_id = ? and state = 'prepared'",
        row["account_id"],
    )["id"]
    cook.sql(
        "update payout set amount_uc = amount_uc - 60, amount_minor = amount_minor - 2 "
        "where id = ?",
        later,
    )
    for payout, sign in ((row["id"], "+"), (later, "-")):
        cook.sql(
            f"update transfer set amount_uc = amount_uc {sign} 60 "
            "where code = 'pay' and reference = ?",
            payout,
        )
    cook.rebalance()


@falsification
def _paid_without_leaving(cook: Cook) -> None:
    """The worker is told that the money is on its way."""
    cook.sql("update payout set state = 'confirmed' where state = 'sent'")


@falsification
def _a_payout_skips_a_step(cook: Cook) -> None:
    cook.sql("delete from payout_event where state = 'sending'")


@falsification
def _a_voided_payout_keeps_the_credits(cook: Cook) -> None:
    cook.remove("seq = (select max(seq) from transfer where code = 'unpay')")


@falsification
def _one_receipt_in_two_payouts(cook: Cook) -> None:
    """A part of November is paid again in December, instead of one of its own."""
    november = "select id from payout where state = 'confirmed'"
    december = (
        "select id from payout where state = 'prepared' and account_id = "
        "(select account_id from payout where state = 'confirmed')"
    )
    cook.sql(
        f"update payout_item set (voucher_id, part, amount_uc) = "
        f"(select voucher_id, part, amount_uc from payout_item where payout_id = "
        f"({november}) limit 1) where rowid = (select min(rowid) from payout_item "
        f"where payout_id = ({december}))"
    )


@falsification
def _a_part_is_worth_more(cook: Cook) -> None:
    cook.sql("update payout_item set amount_uc = amount_uc + 1")


@falsification
def _a_payout_to_another_worker(cook: Cook) -> None:
    """The account in the row; the id is still of the one it was for."""
    other = cook.row("select account_id from payout where state = 'prepared'")[0]
    cook.sql(f"update payout set account_id = ?, attempt = 9 where {_PAID}", other)


@falsification
def _the_bank_was_paid_again_under_a_new_key(cook: Cook) -> None:
    cook.sql("update payout set idempotency_key = 'once more' where state = 'sent'")
