"""Payouts as people and programs read them.

Contract: read-only functions of one open transaction. A document has stable names, the
amount in micro-credits and in money as a decimal string, and instants in UTC.
"""

from typing import Any

from sqlalchemy import Connection, Row, Select, func, select

from ledger.amounts import format_credits
from ledger.errors import NotFound
from ledger.payout_standby import standby_parts
from ledger.periods import format_us
from ledger.rates import format_money
from ledger.schema import account
from ledger.schema_closing import payout, payout_event, payout_item, period

__all__ = [
    "PAYOUT_COLUMNS",
    "find_payout",
    "payout_document",
    "payout_events",
    "payout_rows",
    "payouts",
]

PAYOUT_COLUMNS = (
    "id",
    "period",
    "worker",
    "attempt",
    "adapter",
    "destination",
    "amount_uc",
    "amount",
    "money",
    "currency",
    "state",
    "changed",
    "reference",
    "detail",
)
_MIN_DIGITS = 8


def payouts(
    connection: Connection, *, state: str | None = None, period_id: int | None = None
) -> list[dict[str, object]]:
    """Return payouts in the order of their preparation, each with its parts counted."""
    statement = _selected().order_by(payout.c.prepared_us, payout.c.id)
    if state is not None:
        statement = statement.where(payout.c.state == state)
    if period_id is not None:
        statement = statement.where(payout.c.period_id == period_id)
    parts = (
        select(func.count())
        .where(payout_item.c.payout_id == payout.c.id)
        .scalar_subquery()
    )
    n_standby, _ = standby_parts(payout.c.id)
    both = (parts.label("parts"), n_standby.label("standby"))
    rows = connection.execute(statement.add_columns(*both))
    return [payout_document(row) | {"parts": row.parts + row.standby} for row in rows]


def payout_rows(connection: Connection, ids: list[bytes]) -> dict[bytes, Row[Any]]:
    """Return the rows of the payouts named, with `worker` and `period`, by id.

    Raises:
        NotFound: one of them does not exist.
    """
    found: dict[bytes, Row[Any]] = {}
    for start in range(0, len(ids), 500):
        part = ids[start : start + 500]
        for row in connection.execute(_selected().where(payout.c.id.in_(part))):
            found[row.id] = row
    for payout_id in ids:
        if payout_id not in found:
            raise NotFound(f"no payout {payout_id.hex()}")
    return found


def payout_events(connection: Connection, payout_id: bytes) -> list[dict[str, object]]:
    """Return the steps of a payout, in order."""
    rows = connection.execute(
        select(payout_event)
        .where(payout_event.c.payout_id == payout_id)
        .order_by(payout_event.c.seq)
    )
    return [
        {"time": format_us(row.posted_us), "state": row.state, "detail": row.detail}
        for row in rows
    ]


def find_payout(connection: Connection, text: str) -> bytes:
    """Return the id that 32 hex digits, or at least 8 of its first, name.

    Raises:
        NotFound: no hex, no such payout, or several.
    """
    digits = text.strip().lower()
    if len(digits) < _MIN_DIGITS or digits.strip("0123456789abcdef"):
        raise NotFound(f"{text[:40]!r} names no payout: {_MIN_DIGITS} or more digits")
    ids = connection.execute(select(payout.c.id)).scalars()
    found = [one for one in ids if one.hex().startswith(digits)]
    if len(found) > 1:
        raise NotFound(f"{text[:40]!r} names {len(found)} payouts: give more digits")
    if not found:
        raise NotFound(f"no payout is {text[:40]!r}: see p2pmoe ledger payout list")
    return bytes(found[0])


def payout_document(row: Row[Any]) -> dict[str, object]:
    """Return a payout, as `payout_rows` gives it, as JSON values."""
    return {
        "id": row.id.hex(),
        "period": row.period,
        "worker": row.worker.hex(),
        "attempt": row.attempt,
        "key": row.idempotency_key,
        "adapter": row.adapter,
        "destination": row.destination,
        "amount_uc": row.amount_uc,
        "amount": format_credits(row.amount_uc),
        "amount_minor": row.amount_minor,
        "money": format_money(row.amount_minor, row.currency),
        "currency": row.currency,
        "rate": row.rate,
        "state": row.state,
        "prepared": format_us(row.prepared_us),
        "changed": format_us(row.changed_us),
        "reference": row.external_ref or "",
        "detail": row.detail,
    }


def _selected() -> Select[Any]:
    return (
        select(payout, account.c.owner.label("worker"), period.c.name.label("period"))
        .join(account, account.c.id == payout.c.account_id)
        .join(period, period.c.id == payout.c.period_id)
    )
