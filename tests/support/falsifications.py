"""Ways to cook the books: each changes a ledger's folder as a cheat would.

Most of them keep the books consistent with themselves, see `tests.support.cook`. These
are about balances, grants, vouchers and leaves; what comes after a voucher's close is
in `tests.support.falsifications_closing`.
"""

# ruff: noqa: S608  every part of a statement is written here
from hashlib import sha256

from ledger.leaf import LEAF_BYTES
from tests.support.cook import FALSIFICATIONS, Cook, falsification

__all__ = ["FALSIFICATIONS"]


# -- balances and transfers ----------------------------------------------------


@falsification
def _one_balance_is_raised(cook: Cook) -> None:
    cook.sql("update account set credits_uc = credits_uc + 1 where kind like 'worker%'")


@falsification
def _one_balance_is_raised_and_another_lowered(cook: Cook) -> None:
    """The trial balance still adds up."""
    rich, poor = cook.db.execute(
        "select id from account where kind = 'worker_pending' order by id"
    ).fetchmany(2)
    cook.sql("update account set credits_uc = credits_uc + 7 where id = ?", rich[0])
    cook.sql("update account set credits_uc = credits_uc - 7 where id = ?", poor[0])


@falsification
def _both_sides_of_an_account_are_raised(cook: Cook) -> None:
    """Its balance stays as it was."""
    cook.sql(
        "update account set credits_uc = credits_uc + 5, debits_uc = debits_uc + 5 "
        "where kind = 'client_deposit'"
    )


@falsification
def _money_for_nothing(cook: Cook) -> None:
    """An earning that no voucher explains."""
    worker, backbone = cook.world.worker.id, cook.world.backbone.id
    sides = ((backbone, "client_reserved"), (worker, "worker_pending"))
    cook.post("earn", worker + backbone + b"no tab00" + bytes(8), sides, 100, bytes(32))


@falsification
def _one_earning_is_posted_twice(cook: Cook) -> None:
    row = cook.row("select * from transfer where code = 'earn'")
    worker, backbone = cook.world.worker.id, cook.world.backbone.id
    sides = ((backbone, "client_reserved"), (worker, "worker_pending"))
    cook.post("earn", b"again", sides, row["amount_uc"], row["reference"])


@falsification
def _an_earning_grows(cook: Cook) -> None:
    cook.sql("update transfer set amount_uc = amount_uc + 3 where code = 'earn'")
    cook.rebalance()


@falsification
def _an_earning_goes_to_somebody_else(cook: Cook) -> None:
    thief = cook.account(b"\x11" * 32, "worker_pending")
    seq = cook.row("select min(seq) as seq from transfer where code = 'earn'")["seq"]
    cook.sql("update transfer set credit_id = ? where seq = ?", thief, seq)
    cook.rebalance()


@falsification
def _an_earning_disappears(cook: Cook) -> None:
    cook.remove("seq = (select max(seq) from transfer where code = 'earn')")


@falsification
def _a_gap_in_the_transfers(cook: Cook) -> None:
    """Credit that the operator took back by forgetting it."""
    cook.post(
        "fund",
        cook.world.backbone.id + b"gift",
        ((bytes(32), "external"), (cook.world.backbone.id, "client_deposit")),
        1,
        b"gift",
    )
    cook.sql("update transfer set seq = seq + 1 where code = 'fund' and amount_uc = 1")


@falsification
def _credit_under_another_note(cook: Cook) -> None:
    cook.sql("update transfer set reference = x'3030' where code = 'fund'")


@falsification
def _credit_to_a_worker(cook: Cook) -> None:
    """The operator pays a friend straight from outside."""
    worker = cook.world.worker.id
    sides = ((bytes(32), "external"), (worker, "worker_pending"))
    cook.post("fund", worker + b"friend", sides, 1000, b"friend")


@falsification
def _an_earning_is_dated_back(cook: Cook) -> None:
    """Into the period before: order and balances stay."""
    first = cook.row("select min(posted_us) as us from transfer")["us"]
    cook.sql("update transfer set posted_us = ?", first)


@falsification
def _two_transfers_change_places(cook: Cook) -> None:
    """Money is used before it is there."""
    cook.sql("update transfer set seq = -1 where seq = 1")
    cook.sql("update transfer set seq = 1 where seq = 2")
    cook.sql("update transfer set seq = 2 where seq = -1")


@falsification
def _a_transfer_with_an_id_of_its_own(cook: Cook) -> None:
    cook.sql("update transfer set id = randomblob(16) where code = 'reserve'")


@falsification
def _an_earning_is_called_something_else(cook: Cook) -> None:
    cook.sql("update transfer set code = 'settle' where code = 'earn'")


# -- prices and grants ---------------------------------------------------------


@falsification
def _prices_are_raised(cook: Cook) -> None:
    """A table with a higher base, under its own hash; the signature is the old one."""
    row = cook.row("select * from price_table")
    raw = row["raw"][:73] + (1 << 40).to_bytes(8, "big") + row["raw"][81:]
    cook.sql("update price_table set raw = ? where hash = ?", raw, row["hash"])


@falsification
def _prices_of_a_market_of_ones_own(cook: Cook) -> None:
    """Signed properly, but by the ledger."""
    row = cook.row("select * from price_table")
    signature = cook.world.ledger.sign(b"p2pmoe/prices/v1\0" + row["raw"])
    cook.sql("update price_table set signature = ?", signature)


@falsification
def _a_higher_ceiling(cook: Cook) -> None:
    cook.sql("update granted set ceiling_uc = ceiling_uc * 2")
    cook.sql("update transfer set amount_uc = amount_uc * 2 where code = 'reserve'")


@falsification
def _a_grant_without_the_ledgers_signature(cook: Cook) -> None:
    cook.sql("update granted set signature = zeroblob(64)")


@falsification
def _a_grant_that_runs_longer(cook: Cook) -> None:
    cook.sql("update granted set expiry_us = expiry_us + 86400000000")


@falsification
def _less_used_of_a_grant(cook: Cook) -> None:
    """So that more of the ceiling can go back to a friend."""
    cook.sql("update granted set used_uc = used_uc - 1 where used_uc > 0")


@falsification
def _a_released_grant_is_open_again(cook: Cook) -> None:
    cook.sql("update granted set state = 'open' where state = 'released'")


@falsification
def _an_open_grant_is_given_back_early(cook: Cook) -> None:
    row = cook.row("select * from granted where state = 'open'")
    client = row["backbone"]
    sides = ((client, "client_reserved"), (client, "client_deposit"))
    rest = row["ceiling_uc"] - row["used_uc"]
    cook.post("release", row["hash"], sides, rest, row["hash"])
    cook.sql("update granted set state = 'released'")


@falsification
def _a_grant_is_taken_out(cook: Cook) -> None:
    """One that nothing was filed under, with all its transfers."""
    row = cook.row("select * from granted where used_uc = 0")
    cook.sql("delete from granted where hash = ?", row["hash"])


# -- vouchers, filings, leaves -------------------------------------------------


def _rewrite_voucher(cook: Cook, raw: bytes, content_hash: bytes) -> None:
    """Put other bytes under the old signatures, and their hash everywhere."""
    new_hash = sha256(raw).digest()
    cook.sql(
        "update voucher set raw = ?, content_hash = ? where content_hash = ?",
        raw,
        new_hash,
        content_hash,
    )
    cook.sql(
        "update filing set content_hash = ? where content_hash = ?",
        new_hash,
        content_hash,
    )
    cook.sql(
        "update transfer set reference = ? where reference = ?", new_hash, content_hash
    )


_AMOUNT_AT = -(8 + 32 + 32 + 32 + 8)  # of a voucher's amount, from its end


@falsification
def _a_voucher_says_more(cook: Cook) -> None:
    """Everything fits, filings, transfers and balances; only nobody signed it."""
    row = cook.row("select * from voucher order by id")
    more = row["amount_uc"] + 50
    raw = bytearray(row["raw"])
    raw[_AMOUNT_AT : _AMOUNT_AT + 8] = more.to_bytes(8, "big")
    _rewrite_voucher(cook, bytes(raw), row["content_hash"])
    cook.sql("update voucher set amount_uc = ? where id = ?", more, row["id"])
    last = "voucher_id = ? and number = (select number from voucher where id = ?)"
    ids = row["id"], row["id"]
    cook.sql(f"update filing set amount_uc = amount_uc + 50 where {last}", *ids)
    cook.sql(
        "update transfer set amount_uc = amount_uc + 50 where reference = "
        f"(select content_hash from filing where {last})",
        *ids,
    )
    cook.rebalance()


@falsification
def _the_column_says_more_than_the_voucher(cook: Cook) -> None:
    cook.sql("update voucher set amount_uc = amount_uc + 1")


@falsification
def _signed_by_the_worker_alone(cook: Cook) -> None:
    cook.sql("update voucher set backbone_signature = worker_signature")


@falsification
def _signatures_of_another_voucher(cook: Cook) -> None:
    one, other = cook.db.execute("select * from voucher order by id").fetchmany(2)
    cook.sql(
        "update voucher set worker_signature = ? where id = ?",
        other["worker_signature"],
        one["id"],
    )


@falsification
def _a_signature_for_another_purpose(cook: Cook) -> None:
    """The backbone signed these bytes, but not as a voucher."""
    row = cook.row("select * from voucher")
    signature = cook.world.backbone.sign(b"p2pmoe/grant/v1\0" + row["raw"])
    cook.sql(
        "update voucher set backbone_signature = ? where id = ?", signature, row["id"]
    )


@falsification
def _a_voucher_is_taken_out(cook: Cook) -> None:
    """With its filing, its earning and what its grant says; its leaves stay."""
    row = cook.row("select * from voucher order by id desc")
    earning = "code = 'earn' and reference in (select content_hash from filing where"
    cook.remove(f"{earning} voucher_id = {row['id']})")
    cook.sql(
        "update granted set used_uc = 0 where hash = "
        "(select grant_hash from filing where voucher_id = ?)",
        row["id"],
    )
    cook.sql("delete from filing where voucher_id = ?", row["id"])
    cook.sql("delete from voucher where id = ?", row["id"])


@falsification
def _value_moves_between_two_filings(cook: Cook) -> None:
    """Earlier money for the same voucher: the sums stay."""
    for sign, number in (("+", 1), ("-", 2)):
        at = f"voucher_id = 1 and number = {number}"
        cook.sql(f"update filing set amount_uc = amount_uc {sign} 1 where {at}")
        cook.sql(
            f"update transfer set amount_uc = amount_uc {sign} 1 where code = 'earn' "
            f"and reference = (select content_hash from filing where {at})"
        )
    cook.rebalance()


@falsification
def _a_filing_is_taken_out(cook: Cook) -> None:
    cook.sql("delete from filing where voucher_id = 1 and number = 2")


@falsification
def _filed_under_another_grant(cook: Cook) -> None:
    """Of the same backbone, but for the other worker."""
    cook.sql(
        "update filing set grant_hash = (select hash from granted where worker <> "
        "(select worker from voucher where id = 1)) where voucher_id = 1"
    )


@falsification
def _two_filings_share_leaves(cook: Cook) -> None:
    cook.sql("update filing set leaf_offset = 0 where voucher_id = 1 and number = 3")


@falsification
def _a_leaf_of_more_rows(cook: Cook) -> None:
    """Priced by the table, so it fits itself."""
    price = cook.world.prices.unit_price(0, 0)

    def change(raw: bytearray) -> None:
        rows = int.from_bytes(raw[25:27], "big") + 1
        raw[25:27] = rows.to_bytes(2, "big")
        raw[71:79] = (rows * price).to_bytes(8, "big")

    cook.leaves(change)


@falsification
def _another_result_in_a_leaf(cook: Cook) -> None:
    """What a dispute would be about: sums stay the same."""

    def change(raw: bytearray) -> None:
        raw[47:63] = sha256(b"better").digest()[:16]

    cook.leaves(change)


@falsification
def _two_leaves_change_places(cook: Cook) -> None:
    def change(raw: bytearray) -> None:
        first, second = raw[:LEAF_BYTES], raw[LEAF_BYTES : 2 * LEAF_BYTES]
        first[9:13], second[9:13] = second[9:13], first[9:13]  # serving numbers
        raw[:LEAF_BYTES], raw[LEAF_BYTES : 2 * LEAF_BYTES] = second, first

    cook.leaves(change)


@falsification
def _the_last_leaf_is_cut_off(cook: Cook) -> None:
    def change(raw: bytearray) -> None:
        del raw[-LEAF_BYTES:]

    cook.leaves(change)
    cook.sql("update leaf_file set length_bytes = length_bytes - ?", LEAF_BYTES)


@falsification
def _leaves_of_nobody(cook: Cook) -> None:
    """Committed bytes that no filing speaks of."""

    def change(raw: bytearray) -> None:
        raw += raw[:LEAF_BYTES]

    cook.leaves(change)
    cook.sql("update leaf_file set length_bytes = length_bytes + ?", LEAF_BYTES)


@falsification
def _a_refusal_is_rewritten(cook: Cook) -> None:
    """The evidence of what a worker sent."""
    cook.sql("update rejected set raw = cast(raw || x'00' as blob)")


@falsification
def _somebody_elses_ledger(cook: Cook) -> None:
    cook.sql("update identity set market = randomblob(32)")
