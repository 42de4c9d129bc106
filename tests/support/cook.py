"""A ledger's folder in the hands of whoever cooks its books.

Whoever owns the machine can write any byte: triggers are dropped, constraints ignored,
balances recomputed. What he lacks are the keys of market, workers, backbones and
witnesses.
"""

# ruff: noqa: S608  every part of a statement is written here
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ledger.accounts import TransferCode, transfer_id
from tests.support.ledger_world import World

__all__ = ["FALSIFICATIONS", "Cook", "Falsification", "falsification"]


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


def falsification(cook: Callable[[Cook], None]) -> Callable[[Cook], None]:
    """Add a way to cook the books, named as its function is."""
    FALSIFICATIONS.append(Falsification(cook.__name__.strip("_"), cook))
    return cook
