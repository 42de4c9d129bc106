"""Ways to cook the books: each changes a ledger's folder as a cheat would.

Whoever owns the machine can write any byte, so most of these keep the books consistent
with themselves: triggers are dropped, balances recomputed, hashes made again. What none
of them has is the keys of the others: market, workers, backbones, witnesses.
"""

# ruff: noqa: S608  every part of a statement is written here
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Self

from ledger.accounts import TransferCode, transfer_id
from ledger.leaf import LEAF_BYTES
from tests.support.ledger_world import World

__all__ = ["FALSIFICATIONS", "Cook", "Falsification"]


@dataclass
class Cook:
    """A folder in the hands of whoever cooks it."""

    folder: Path
    world: World
    db: sqlite3.Connection = field(init=False)

    def __enter__(self) -> Self:
        self.db = sqlite3.connect(self.folder / "ledger.sqlite3", isolation_level=None)
        self.db.row_factory = sqlite3.Row
        self.db.execute("pragma synchronous = off")
        self.db.execute("pragma ignore_check_constraints = on")
        query = "select name from sqlite_master where type = 'trigger'"
        for (name,) in self.db.execute(query).fetchall():
            self.db.execute(f"drop trigger {name}")
        return self

    def __exit__(self, *_: object) -> None:
        self.db.close()

    def sql(self, statement: str, *values: object) -> None:
        """Run a statement that changes one row or more."""
        changed = self.db.execute(statement, values).rowcount
        assert changed > 0, statement

    def row(self, statement: str, *values: object) -> sqlite3.Row:
        found = self.db.execute(statement, values).fetchone()
        assert found is not None, statement
        return found

    def account(self, owner: bytes, kind: str) -> int:
        """Return an account's number, opened if there is none."""
        query = "select id from account where owner = ? and kind = ?"
        found = self.db.execute(query, (owner, kind)).fetchone()
        if found is None:
            last = self.row("select max(id) as last from account")["last"]
            self.sql(
                "insert into account values (?, ?, ?, 0, 0, 0)", last + 1, owner, kind
            )
            return last + 1
        return found[0]

    def post(
        self,
        code: str,
        key: bytes,
        sides: tuple[tuple[bytes, str], tuple[bytes, str]],
        amount_uc: int,
        reference: bytes,
    ) -> None:
        """Add a transfer at the end, with a proper id, and set the balances right."""
        last = self.row("select max(seq) as seq, max(posted_us) as us from transfer")
        debit, credit = (self.account(*side) for side in sides)
        self.sql(
            "insert into transfer values (?, ?, ?, ?, ?, ?, ?, ?)",
            last["seq"] + 1,
            transfer_id(TransferCode(code), key),
            debit,
            credit,
            amount_uc,
            code,
            reference,
            last["us"],
        )
        self.rebalance()

    def remove(self, condition: str) -> None:
        """Take transfers out, close the gap, set the balances right."""
        self.sql(f"delete from transfer where {condition}")
        rows = self.db.execute("select seq from transfer order by seq").fetchall()
        for number, (seq,) in enumerate(rows, start=1):
            self.db.execute("update transfer set seq = ? where seq = ?", (number, seq))
        self.rebalance()

    def rebalance(self) -> None:
        """Make both sides of every account what the transfers say."""
        for column, side in (("debits_uc", "debit_id"), ("credits_uc", "credit_id")):
            self.db.execute(
                f"update account set {column} = coalesce((select sum(amount_uc) from "
                f"transfer where {side} = account.id), 0)"
            )

    def leaves(self, change: Callable[[bytearray], None], number: int = 1) -> None:
        """Change the bytes of a leaf file."""
        path = self.folder / "leaves" / f"{number:08d}.leaves"
        raw = bytearray(path.read_bytes())
        before = bytes(raw)
        change(raw)
        assert raw != before
        path.write_bytes(raw)


@dataclass(frozen=True)
class Falsification:
    """A named way to cook the books."""

    name: str
    cook: Callable[[Cook], None]

    def apply(self, folder: Path, world: World) -> None:
        """Change the folder."""
        with Cook(folder, world) as cook:
            self.cook(cook)


FALSIFICATIONS: list[Falsification] = []


def _falsification(cook: Callable[[Cook], None]) -> Callable[[Cook], None]:
    FALSIFICATIONS.append(Falsification(cook.__name__.strip("_"), cook))
    return cook


# -- balances and transfers ----------------------------------------------------


@_falsification
def _one_balance_is_raised(cook: Cook) -> None:
    cook.sql("update account set credits_uc = credits_uc + 1 where kind like 'worker%'")


@_falsification
def _one_balance_is_raised_and_another_lowered(cook: Cook) -> None:
    """The trial balance still adds up."""
    rich, poor = cook.db.execute(
        "select id from account where kind = 'worker_pending' order by id"
    ).fetchmany(2)
    cook.sql("update account set credits_uc = credits_uc + 7 where id = ?", rich[0])
    cook.sql("update account set credits_uc = credits_uc - 7 where id = ?", poor[0])


@_falsification
def _both_sides_of_an_account_are_raised(cook: Cook) -> None:
    """Its balance stays as it was."""
    cook.sql(
        "update account set credits_uc = credits_uc + 5, debits_uc = debits_uc + 5 "
        "where kind = 'client_deposit'"
    )


@_falsification
def _money_for_nothing(cook: Cook) -> None:
    """An earning that no voucher explains."""
    worker, backbone = cook.world.worker.id, cook.world.backbone.id
    sides = ((backbone, "client_reserved"), (worker, "worker_pending"))
    cook.post("earn", worker + backbone + b"no tab00" + bytes(8), sides, 100, bytes(32))


@_falsification
def _one_earning_is_posted_twice(cook: Cook) -> None:
    row = cook.row("select * from transfer where code = 'earn'")
    worker, backbone = cook.world.worker.id, cook.world.backbone.id
    sides = ((backbone, "client_reserved"), (worker, "worker_pending"))
    cook.post("earn", b"again", sides, row["amount_uc"], row["reference"])


@_falsification
def _an_earning_grows(cook: Cook) -> None:
    cook.sql("update transfer set amount_uc = amount_uc + 3 where code = 'earn'")
    cook.rebalance()


@_falsification
def _an_earning_goes_to_somebody_else(cook: Cook) -> None:
    thief = cook.account(b"\x11" * 32, "worker_pending")
    seq = cook.row("select min(seq) as seq from transfer where code = 'earn'")["seq"]
    cook.sql("update transfer set credit_id = ? where seq = ?", thief, seq)
    cook.rebalance()


@_falsification
def _an_earning_disappears(cook: Cook) -> None:
    cook.remove("seq = (select max(seq) from transfer where code = 'earn')")


@_falsification
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


@_falsification
def _credit_under_another_note(cook: Cook) -> None:
    cook.sql("update transfer set reference = x'3030' where code = 'fund'")


@_falsification
def _credit_to_a_worker(cook: Cook) -> None:
    """The operator pays a friend straight from outside."""
    worker = cook.world.worker.id
    sides = ((bytes(32), "external"), (worker, "worker_pending"))
    cook.post("fund", worker + b"friend", sides, 1000, b"friend")


@_falsification
def _an_earning_is_dated_back(cook: Cook) -> None:
    """Into the period before: order and balances stay."""
    first = cook.row("select min(posted_us) as us from transfer")["us"]
    cook.sql("update transfer set posted_us = ?", first)


@_falsification
def _two_transfers_change_places(cook: Cook) -> None:
    """Money is used before it is there."""
    cook.sql("update transfer set seq = -1 where seq = 1")
    cook.sql("update transfer set seq = 1 where seq = 2")
    cook.sql("update transfer set seq = 2 where seq = -1")


@_falsification
def _a_transfer_with_an_id_of_its_own(cook: Cook) -> None:
    cook.sql("update transfer set id = randomblob(16) where code = 'reserve'")


@_falsification
def _an_earning_is_called_something_else(cook: Cook) -> None:
    cook.sql("update transfer set code = 'settle' where code = 'earn'")


# -- prices and grants ---------------------------------------------------------


@_falsification
def _prices_are_raised(cook: Cook) -> None:
    """A table with a higher base, under its own hash; the signature is the old one."""
    row = cook.row("select * from price_table")
    raw = row["raw"][:73] + (1 << 40).to_bytes(8, "big") + row["raw"][81:]
    cook.sql("update price_table set raw = ? where hash = ?", raw, row["hash"])


@_falsification
def _prices_of_a_market_of_ones_own(cook: Cook) -> None:
    """Signed properly, but by the ledger."""
    row = cook.row("select * from price_table")
    signature = cook.world.ledger.sign(b"p2pmoe/prices/v1\0" + row["raw"])
    cook.sql("update price_table set signature = ?", signature)


@_falsification
def _a_higher_ceiling(cook: Cook) -> None:
    cook.sql("update granted set ceiling_uc = ceiling_uc * 2")
    cook.sql("update transfer set amount_uc = amount_uc * 2 where code = 'reserve'")


@_falsification
def _a_grant_without_the_ledgers_signature(cook: Cook) -> None:
    cook.sql("update granted set signature = zeroblob(64)")


@_falsification
def _a_grant_that_runs_longer(cook: Cook) -> None:
    cook.sql("update granted set expiry_us = expiry_us + 86400000000")


@_falsification
def _less_used_of_a_grant(cook: Cook) -> None:
    """So that more of the ceiling can go back to a friend."""
    cook.sql("update granted set used_uc = used_uc - 1 where used_uc > 0")


@_falsification
def _a_released_grant_is_open_again(cook: Cook) -> None:
    cook.sql("update granted set state = 'open' where state = 'released'")


@_falsification
def _an_open_grant_is_given_back_early(cook: Cook) -> None:
    row = cook.row("select * from granted where state = 'open'")
    client = row["backbone"]
    sides = ((client, "client_reserved"), (client, "client_deposit"))
    rest = row["ceiling_uc"] - row["used_uc"]
    cook.post("release", row["hash"], sides, rest, row["hash"])
    cook.sql("update granted set state = 'released'")


@_falsification
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


@_falsification
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


@_falsification
def _the_column_says_more_than_the_voucher(cook: Cook) -> None:
    cook.sql("update voucher set amount_uc = amount_uc + 1")


@_falsification
def _signed_by_the_worker_alone(cook: Cook) -> None:
    cook.sql("update voucher set backbone_signature = worker_signature")


@_falsification
def _signatures_of_another_voucher(cook: Cook) -> None:
    one, other = cook.db.execute("select * from voucher order by id").fetchmany(2)
    cook.sql(
        "update voucher set worker_signature = ? where id = ?",
        other["worker_signature"],
        one["id"],
    )


@_falsification
def _a_signature_for_another_purpose(cook: Cook) -> None:
    """The backbone signed these bytes, but not as a voucher."""
    row = cook.row("select * from voucher")
    signature = cook.world.backbone.sign(b"p2pmoe/grant/v1\0" + row["raw"])
    cook.sql(
        "update voucher set backbone_signature = ? where id = ?", signature, row["id"]
    )


@_falsification
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


@_falsification
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


@_falsification
def _a_filing_is_taken_out(cook: Cook) -> None:
    cook.sql("delete from filing where voucher_id = 1 and number = 2")


@_falsification
def _filed_under_another_grant(cook: Cook) -> None:
    """Of the same backbone, but for the other worker."""
    cook.sql(
        "update filing set grant_hash = (select hash from granted where worker <> "
        "(select worker from voucher where id = 1)) where voucher_id = 1"
    )


@_falsification
def _two_filings_share_leaves(cook: Cook) -> None:
    cook.sql("update filing set leaf_offset = 0 where voucher_id = 1 and number = 3")


@_falsification
def _a_leaf_of_more_rows(cook: Cook) -> None:
    """Priced by the table, so it fits itself."""
    price = cook.world.prices.unit_price(0, 0)

    def change(raw: bytearray) -> None:
        rows = int.from_bytes(raw[25:27], "big") + 1
        raw[25:27] = rows.to_bytes(2, "big")
        raw[71:79] = (rows * price).to_bytes(8, "big")

    cook.leaves(change)


@_falsification
def _another_result_in_a_leaf(cook: Cook) -> None:
    """What a dispute would be about: sums stay the same."""

    def change(raw: bytearray) -> None:
        raw[47:63] = sha256(b"better").digest()[:16]

    cook.leaves(change)


@_falsification
def _two_leaves_change_places(cook: Cook) -> None:
    def change(raw: bytearray) -> None:
        first, second = raw[:LEAF_BYTES], raw[LEAF_BYTES : 2 * LEAF_BYTES]
        first[9:13], second[9:13] = second[9:13], first[9:13]  # serving numbers
        raw[:LEAF_BYTES], raw[LEAF_BYTES : 2 * LEAF_BYTES] = second, first

    cook.leaves(change)


@_falsification
def _the_last_leaf_is_cut_off(cook: Cook) -> None:
    def change(raw: bytearray) -> None:
        del raw[-LEAF_BYTES:]

    cook.leaves(change)
    cook.sql("update leaf_file set length_bytes = length_bytes - ?", LEAF_BYTES)


@_falsification
def _leaves_of_nobody(cook: Cook) -> None:
    """Committed bytes that no filing speaks of."""

    def change(raw: bytearray) -> None:
        raw += raw[:LEAF_BYTES]

    cook.leaves(change)
    cook.sql("update leaf_file set length_bytes = length_bytes + ?", LEAF_BYTES)


@_falsification
def _a_refusal_is_rewritten(cook: Cook) -> None:
    """The evidence of what a worker sent."""
    cook.sql("update rejected set raw = cast(raw || x'00' as blob)")


@_falsification
def _somebody_elses_ledger(cook: Cook) -> None:
    cook.sql("update identity set market = randomblob(32)")
