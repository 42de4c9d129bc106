"""The latest instant that a ledger wrote down: its time never goes back behind it.

Contract: a ledger that starts with its machine's clock set back goes on from here, so
that no answer comes before its claim and no period gets a late surprise. Tables that
only grow in the order of time are asked for their last row, small ones for their
greatest value; none is read whole that may be large. Read-only.
"""

from sqlalchemy import ColumnElement, Connection, select

from ledger.database import highest
from ledger.schema import filing, rejected, transfer
from ledger.schema_beacon import audit, beacon
from ledger.schema_closing import (
    checkpoint,
    closing,
    dispute,
    equivocation,
    one_sided,
    payout_event,
    period,
    policy,
)
from ledger.schema_standby import standby_paper

__all__ = ["latest_us"]

# The instant, and the number that grows with it.
_GROWING: tuple[tuple[ColumnElement[int], ColumnElement[int]], ...] = (
    (transfer.c.posted_us, transfer.c.seq),
    (closing.c.closed_us, closing.c.log_index),
    (policy.c.posted_us, policy.c.seq),
    (payout_event.c.posted_us, payout_event.c.seq),
    (checkpoint.c.posted_us, checkpoint.c.size),
    (standby_paper.c.booked_us, standby_paper.c.seq),
    (beacon.c.upto_us, beacon.c.number),
)
_SMALL_OR_INDEXED: tuple[ColumnElement[int], ...] = (
    filing.c.posted_us,
    rejected.c.seen_us,
    one_sided.c.seen_us,
    equivocation.c.seen_us,
    dispute.c.opened_us,
    dispute.c.answered_us,
    dispute.c.decided_us,
    period.c.closed_us,
    audit.c.decided_us,
)


def latest_us(connection: Connection) -> int:
    """Return the latest instant of everything written, 0 for a new ledger."""
    found = [highest(connection, column) for column in _SMALL_OR_INDEXED]
    for instant, number in _GROWING:
        last = select(instant).order_by(number.desc()).limit(1)
        found.append(connection.execute(last).scalar_one_or_none() or 0)
    return max(found)
