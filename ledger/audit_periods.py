"""Audit: closed periods say what the transfers and the log say about them.

Contract: a period's borders follow from its name; periods do not overlap, and nothing
moved outside of them before the last one ended. The last transfer, size and root of the
log, the root over all workers' statements and whether vouchers came late are derived
again from transfers, closings and filings. As a period's row was fixed when it was
closed, whatever was changed later inside of it shows here. Reads only; raises
`DifferenceFound`.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, select

from ledger.audit_books import Books, same
from ledger.errors import DifferenceFound, PeriodRefused
from ledger.log.tree import root_of
from ledger.periods import Period, parse_period
from ledger.schema import filing, transfer
from ledger.schema_closing import period
from ledger.statement_root import statement_root

__all__ = ["check_periods"]


def check_periods(connection: Connection, books: Books) -> None:
    """Check every closed period, in order."""
    rows = connection.execute(select(period).order_by(period.c.start_us)).all()
    for row in rows:
        name = f"period {row.name}"
        span = _borders(name, row)
        if row.closed_us < row.end_us:
            raise DifferenceFound(f"{name}: closed before it was over")
        _check_contents(connection, name, row, books)
        same(name, "statements", row.statement_root, statement_root(connection, span))
        same(name, "note", row.late != "", _has_late(connection, row))
        books.report.periods += 1
    _check_gaps(connection, rows)


def _borders(name: str, row: Row[Any]) -> Period:
    try:
        span = parse_period(row.name)
    except PeriodRefused as exc:
        raise DifferenceFound(f"{name}: {exc}") from exc
    same(name, "borders", (row.start_us, row.end_us), (span.start_us, span.end_us))
    return span


def _check_contents(
    connection: Connection, name: str, row: Row[Any], books: Books
) -> None:
    last_seq = connection.execute(
        select(func.max(transfer.c.seq)).where(transfer.c.posted_us < row.end_us)
    ).scalar_one()
    same(name, "last transfer", row.last_seq, last_seq or 0)
    size = sum(each.closed_us < row.end_us for each in books.closed.values())
    same(name, "size of the log", row.log_size, size)
    root = root_of(books.entries[:size])
    same(name, "root of the log", row.log_root, root)


def _has_late(connection: Connection, row: Row[Any]) -> bool:
    """Say whether a voucher was filed in the period that was issued before it."""
    late = select(filing.c.content_hash).where(
        filing.c.posted_us >= row.start_us,
        filing.c.posted_us < row.end_us,
        filing.c.issued_us < row.start_us,
    )
    return connection.execute(late.limit(1)).first() is not None


def _check_gaps(connection: Connection, rows: Sequence[Row[Any]]) -> None:
    """Check that periods do not overlap, and that nothing moved between two."""
    end_us = 0
    for row in rows:
        if row.start_us < end_us:
            raise DifferenceFound(f"period {row.name} overlaps the one before")
        between = connection.execute(
            select(transfer.c.id).where(
                transfer.c.posted_us >= end_us, transfer.c.posted_us < row.start_us
            )
        ).first()
        if between is not None:
            raise DifferenceFound(
                f"transfer {between.id.hex()} lies before period {row.name}, in none"
            )
        end_us = row.end_us
