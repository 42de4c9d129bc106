"""Close a period: its statements are fixed by one hash, and never change again.

Contract: a period can be closed once it is over by the ledger's own time, which never
goes back; so nothing is ever posted into it any more. Closed periods follow each other
without a gap in which something moved, and never overlap. The row says where transfers
and log stood at the period's end, and the root over all workers' statements (bytes:
`ledger.statement_root`); the database keeps it from being changed. There is no way to
open a period again: what comes late belongs to the period in which it came, whose row
has a note. Closing a closed one again returns the same row.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, func, insert, select

from ledger.amounts import format_credits
from ledger.database import highest
from ledger.errors import DifferenceFound, NotFound, PeriodRefused
from ledger.log.tree import root_of
from ledger.office import Office, Operation
from ledger.params import Params
from ledger.periods import Period, format_us, parse_period
from ledger.schema import filing, transfer
from ledger.schema_closing import closing, period
from ledger.statement_root import statement_root

__all__ = [
    "PERIOD_OPERATIONS",
    "close_period",
    "closed_period",
    "closed_periods",
    "log_at",
    "period_document",
]

_CHUNK = 1 << 16  # entries whose hashes are joined at once; a power of two
_PERIOD_CHARS = 24


def close_period(office: Office, params: Mapping[str, object]) -> dict[str, object]:
    """Close the period that `name` means; `already` says that it was closed before.

    Raises:
        PeriodRefused: not over, overlapping, or something moved before it that no
            closed period has.
    """
    read = Params(params)
    name = read.text("name", max_chars=_PERIOD_CHARS).strip()
    read.done()
    span = parse_period(name)
    connection = office.connection
    found = _find(connection, span)
    if found is not None:
        return period_document(found) | {"already": True}
    if office.now_us < span.end_us:
        raise _refused(
            f"{name} is not over: it ends at {format_us(span.end_us)}, and now it is "
            f"{format_us(office.now_us)}",
            "Close it when it is over.",
        )
    _refuse_out_of_order(connection, name, span)
    log_size, log_root = log_at(connection, span.end_us)
    row = {
        "id": 1 + highest(connection, period.c.id),
        "name": name,
        "start_us": span.start_us,
        "end_us": span.end_us,
        "closed_us": office.now_us,
        "last_seq": _last_seq(connection, span.end_us),
        "log_size": log_size,
        "log_root": log_root,
        "statement_root": statement_root(connection, span),
        "late": _late(connection, span),
    }
    connection.execute(insert(period), [row])
    closed = _find(connection, span)
    if closed is None:
        raise DifferenceFound(f"period {name} was not kept")
    return period_document(closed) | {"already": False}


PERIOD_OPERATIONS: dict[str, Operation] = {"period.close": close_period}


def closed_period(connection: Connection, name: str) -> Row[Any]:
    """Return the row of a closed period, by any name of its borders.

    Raises:
        PeriodRefused: no period.
        NotFound: it is not closed.
    """
    found = _find(connection, parse_period(name))
    if found is None:
        error = NotFound(f"period {name} is not closed")
        error.advice = f"Close it with `p2pmoe ledger close {name}` when it is over."
        raise error
    return found


def closed_periods(connection: Connection) -> list[Row[Any]]:
    """Return the rows of all closed periods, in order."""
    return list(connection.execute(select(period).order_by(period.c.start_us)).all())


def period_document(row: Row[Any]) -> dict[str, object]:
    """Return a closed period's columns as JSON values, hashes in hex."""
    return {
        "name": row.name,
        "start_us": row.start_us,
        "start": format_us(row.start_us),
        "end_us": row.end_us,
        "end": format_us(row.end_us),
        "closed_us": row.closed_us,
        "closed": format_us(row.closed_us),
        "last_seq": row.last_seq,
        "log_size": row.log_size,
        "log_root": row.log_root.hex(),
        "statement_root": row.statement_root.hex(),
        "late": row.late,
    }


def log_at(connection: Connection, end_us: int) -> tuple[int, bytes]:
    """Return size and 32-byte root of the log of what was closed before an instant.

    Raises:
        DifferenceFound: the entries are not numbered 0, 1, 2, ...
    """
    rows = connection.execute(
        select(closing.c.log_index, closing.c.entry_hash)
        .where(closing.c.closed_us < end_us)
        .order_by(closing.c.log_index)
    )
    size = 0
    roots: list[bytes] = []
    for part in rows.partitions(_CHUNK):
        hashes = list(_numbered(part, size))
        size += len(hashes)
        roots.append(root_of(hashes))
    return size, root_of(roots)


def _numbered(rows: Iterable[Sequence[Any]], first: int) -> Iterable[bytes]:
    for expected, (log_index, entry_hash) in enumerate(rows, first):
        if log_index != expected:
            raise DifferenceFound(
                f"entry {expected} of the log is missing before {log_index}"
            )
        yield entry_hash


def _find(connection: Connection, span: Period) -> Row[Any] | None:
    return connection.execute(
        select(period).where(
            period.c.start_us == span.start_us, period.c.end_us == span.end_us
        )
    ).one_or_none()


def _refuse_out_of_order(connection: Connection, name: str, span: Period) -> None:
    last = connection.execute(
        select(period).order_by(period.c.end_us.desc()).limit(1)
    ).one_or_none()
    since_us = last.end_us if last is not None else 0
    if last is not None and span.start_us < last.end_us:
        raise _refused(
            f"{name} begins before {last.name} ended, which is closed",
            f"Periods are closed in order; the next begins at {format_us(since_us)}: "
            "write FIRST-DAY..DAY-AFTER-THE-LAST if it is no whole month.",
        )
    earlier: int | None = connection.execute(
        select(func.min(transfer.c.posted_us)).where(
            transfer.c.posted_us >= since_us, transfer.c.posted_us < span.start_us
        )
    ).scalar_one()
    if earlier is not None:
        raise _refused(
            f"before {name}, at {format_us(earlier)}, something moved that no closed "
            "period has",
            "Close the period in which it lies first.",
        )


def _last_seq(connection: Connection, end_us: int) -> int:
    last: int | None = connection.execute(
        select(func.max(transfer.c.seq)).where(transfer.c.posted_us < end_us)
    ).scalar_one()
    return last or 0


def _late(connection: Connection, span: Period) -> str:
    """Return the note on vouchers that came in the period, issued before it."""
    count, amount_uc = connection.execute(
        select(func.count(), func.sum(filing.c.amount_uc)).where(
            filing.c.posted_us >= span.start_us,
            filing.c.posted_us < span.end_us,
            filing.c.issued_us < span.start_us,
        )
    ).one()
    if not count:
        return ""
    total = format_credits(int(amount_uc))
    return f"{count} vouchers of {total} credits were issued before it began"


def _refused(message: str, advice: str) -> PeriodRefused:
    error = PeriodRefused(message)
    error.advice = advice
    return error
