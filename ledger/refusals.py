"""Which refused vouchers are kept: as received, once each, while there is room.

A sender has room for 256, of which 16 may be put down to no worker. New keys cost
nothing, so all senders together have a bound as well: at the very most half a gigabyte
for ever. What finds no room was refused and answered all the same. Only the writer's
thread touches this.
"""

from sqlalchemy import ColumnElement, Connection, func, literal, select

from ledger.claims import Refusal
from ledger.rows import Row, Rows, rejected_row
from ledger.schema import rejected

__all__ = ["Refusals"]

_MAX_KEPT = 65_536
_MAX_OF_FILER = 256
_MAX_NAMELESS = 1024  # put down to no worker
_MAX_NAMELESS_OF_FILER = 16


class Refusals:
    """Adds refused vouchers to the rows of a group."""

    def __init__(self, connection: Connection, rows: Rows) -> None:
        """Count what is kept already."""
        self._connection = connection
        self._rows = rows
        self._n_kept = self._count()

    def add(self, refusal: Refusal, now_us: int) -> None:
        """Keep a refused voucher if it is new and there is room."""
        row = rejected_row(refusal, now_us)
        digest = row["digest"]
        if digest in self._rows.rejected or self._is_kept(rejected.c.digest == digest):
            return
        if self._has_room_for(row):
            self._rows.rejected[digest] = row
            self._n_kept += 1

    def _has_room_for(self, row: Row) -> bool:
        if self._n_kept >= _MAX_KEPT:
            return False
        waiting = list(self._rows.rejected.values())
        own = [other for other in waiting if other["filed_by"] == row["filed_by"]]
        of_filer = rejected.c.filed_by == row["filed_by"]
        if self._count(of_filer) + len(own) >= _MAX_OF_FILER:
            return False
        if row["worker"]:
            return True
        nameless = rejected.c.worker == b""
        n_own = self._count(of_filer, nameless) + _n_nameless(own)
        n_all = self._count(nameless) + _n_nameless(waiting)
        return n_own < _MAX_NAMELESS_OF_FILER and n_all < _MAX_NAMELESS

    def _is_kept(self, condition: ColumnElement[bool]) -> bool:
        statement = select(literal(1)).where(condition).limit(1)
        return self._connection.execute(statement).scalar_one_or_none() is not None

    def _count(self, *conditions: ColumnElement[bool]) -> int:
        statement = select(func.count()).select_from(rejected).where(*conditions)
        count: int = self._connection.execute(statement).scalar_one()
        return count


def _n_nameless(rows: list[Row]) -> int:
    return sum(not row["worker"] for row in rows)
