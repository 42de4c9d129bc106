"""More ways to cook the books: standby pay, its pot and its papers.

As `tests.support.falsifications`: what the market signed is the one thing that whoever
owns the machine cannot make.
"""

# ruff: noqa: S608  every part of a statement is written here
from hashlib import sha256

from tests.support.cook import FALSIFICATIONS, Cook, falsification
from tests.support.ledger_world import Party

__all__ = ["FALSIFICATIONS"]

_POT = (bytes(32), "standby")


def _first_pay(cook: Cook):
    return cook.row(
        "select standby_pay.*, hash, booked_us from standby_pay join standby_paper "
        "on seq = paper where state = 'paid' order by paper, worker"
    )


@falsification
def _standby_pay_grows(cook: Cook) -> None:
    """Pay, epoch, transfer and balances agree; only the paper says less."""
    pay = _first_pay(cook)
    for table in ("standby_pay", "holding"):
        cook.sql(
            f"update {table} set amount_uc = amount_uc + 7 where paper = ? and "
            f"worker = ?{' and layer = 1' if table == 'holding' else ''}",
            pay["paper"],
            pay["worker"],
        )
    cook.sql("update price_epoch set paid_uc = paid_uc + 7 where paper = 1")
    cook.sql(
        "update transfer set amount_uc = amount_uc + 7 where code = 'standby' and "
        "seq = (select min(seq) from transfer where code = 'standby')"
    )
    cook.rebalance()


@falsification
def _standby_pay_goes_to_a_friend(cook: Cook) -> None:
    """A friend of the operator is put into the holder's place, everywhere."""
    pay = _first_pay(cook)
    friend = Party("eve").id
    for table in ("standby_pay", "holding"):
        cook.sql(
            f"update {table} set worker = ? where paper = ? and worker = ?",
            friend,
            pay["paper"],
            pay["worker"],
        )
    account = cook.account(friend, "worker_available")
    cook.sql(
        "update transfer set credit_id = ? where seq = (select min(seq) from transfer "
        "where code = 'standby')",
        account,
    )
    cook.rebalance()


@falsification
def _who_is_not_known_is_paid(cook: Cook) -> None:
    pay = cook.row("select * from standby_pay where state = 'unknown'")
    name = cook.row("select hash from standby_paper where seq = ?", pay["paper"])[0]
    sides = (_POT, (pay["worker"], "worker_available"))
    cook.post("standby", name + pay["worker"], sides, pay["amount_uc"], name)
    cook.sql("update standby_pay set state = 'paid' where state = 'unknown'")
    cook.sql(
        "update price_epoch set paid_uc = paid_uc + ? where paper = ?",
        pay["amount_uc"],
        pay["paper"],
    )


@falsification
def _who_is_known_is_called_unknown(cook: Cook) -> None:
    """The pot keeps what was earned."""
    pay = _first_pay(cook)
    cook.sql(
        "update standby_pay set state = 'unknown' where paper = ? and worker = ?",
        pay["paper"],
        pay["worker"],
    )
    cook.sql(
        "update price_epoch set paid_uc = paid_uc - ? where paper = ?",
        pay["amount_uc"],
        pay["paper"],
    )
    cook.remove("seq = (select min(seq) from transfer where code = 'standby')")


@falsification
def _a_paper_of_ones_own(cook: Cook) -> None:
    """Signed properly, but by the ledger."""
    row = cook.row("select * from standby_paper")
    signature = cook.world.ledger.sign(b"p2pmoe/standby/v1\0" + row["raw"])
    cook.sql("update standby_paper set signature = ? where seq = 1", signature)


@falsification
def _a_paper_is_rewritten(cook: Cook) -> None:
    """A larger pot under the old signature, and its new name everywhere."""
    row = cook.row("select * from standby_paper where seq = 1")
    raw = bytearray(row["raw"])
    raw[121:129] = (1 << 20).to_bytes(8, "big")
    name = sha256(raw).digest()
    cook.sql("update standby_paper set raw = ?, hash = ? where seq = 1", raw, name)


@falsification
def _a_paper_is_booked_again(cook: Cook) -> None:
    """The very same one, as if it were another."""
    cook.sql(
        "insert into standby_paper select seq + 2, cast(hash || x'00' as blob), raw, "
        "signature, policy_hash, booked_us from standby_paper where seq = 1"
    )
    for table in ("price_epoch", "price_row", "holding", "standby_pay"):
        names = [each[1] for each in cook.db.execute(f"pragma table_info({table})")]
        rest = ", ".join(name for name in names if name != "paper")
        if table == "price_epoch":
            rest = rest.replace("epoch,", "epoch + 1000,", 1)
        cook.sql(
            f"insert into {table} (paper, {', '.join(names[1:])}) "
            f"select 3, {rest} from {table} where paper = 1"
        )


@falsification
def _a_paper_from_before_it_was_its_turn(cook: Cook) -> None:
    """Booked before its epoch was over."""
    cook.sql("update standby_paper set booked_us = booked_us - 86400000000")
    cook.sql(
        "update transfer set posted_us = posted_us - 86400000000 where code = 'standby'"
    )


@falsification
def _a_paper_under_terms_without_standby_pay(cook: Cook) -> None:
    """As if another policy had held."""
    other = cook.row("select hash from policy order by seq desc")[0]
    first = cook.row("select policy_hash from standby_paper")[0]
    if other == first:
        other = cook.row("select hash from policy order by seq")[0]
    cook.sql("update standby_paper set policy_hash = ?", other)


@falsification
def _scarcity_is_rewritten(cook: Cook) -> None:
    """What a report would show: nobody's money moves."""
    cook.sql("update price_row set demand = demand + 1 where paper = 1 and expert = 3")


@falsification
def _a_replica_that_nobody_held(cook: Cook) -> None:
    row = cook.row("select * from holding where paper = 2")
    cook.sql(
        "insert into holding values (2, ?, 9, 9, ?, 1, 0)", row["worker"], row["domain"]
    )


@falsification
def _an_epoch_of_another_model(cook: Cook) -> None:
    cook.sql("update price_epoch set manifest_hash = randomblob(32) where paper = 2")


@falsification
def _a_holding_of_no_paper(cook: Cook) -> None:
    row = cook.row("select * from holding where paper = 2")
    cook.sql(
        "insert into holding values (9, ?, 1, 3, ?, 1, 0)", row["worker"], row["domain"]
    )


@falsification
def _the_pot_is_filled_from_a_backbone(cook: Cook) -> None:
    """The operator's gift, out of somebody else's money."""
    account = cook.account(cook.world.backbone.id, "client_deposit")
    cook.sql("update transfer set debit_id = ? where code = 'endow'", account)
    cook.rebalance()


@falsification
def _fees_for_the_pot_under_another_note(cook: Cook) -> None:
    cook.sql("update transfer set reference = x'3030' where code = 'allot'")


@falsification
def _money_leaves_the_pot(cook: Cook) -> None:
    """To a worker, without a paper."""
    worker = cook.world.worker.id
    cook.post("standby", b"k", (_POT, (worker, "worker_available")), 1, bytes(32))


@falsification
def _standby_pay_is_paid_out_twice(cook: Cook) -> None:
    """In two living payouts of one worker."""
    item = cook.row("select * from payout_standby")
    other = cook.row(
        "select id from payout where account_id = (select account_id from payout where "
        "id = ?) and id <> ? and state not in ('failed', 'void') and prepared_us > "
        "(select prepared_us from payout where id = ?)",
        *[item["payout_id"]] * 3,
    )
    cook.sql(
        "insert into payout_standby values (?, ?, ?, ?)",
        other["id"],
        item["paper"],
        item["worker"],
        item["amount_uc"],
    )


@falsification
def _a_payout_takes_more_standby_pay(cook: Cook) -> None:
    cook.sql("update payout_standby set amount_uc = amount_uc + 1")
