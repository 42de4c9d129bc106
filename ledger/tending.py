"""What a ledger does by itself as time goes by: release, close, decide, settle.

Contract: `tend` runs on the writer's desk and does a bounded part of what is due; who
gets `is_done` false calls again. Everything is due by the ledger's time alone, so that
calling more often, or later, moves the same value. A ledger that was away for long
leaves an hour for what could not be filed or answered meanwhile, before anything ends
by the clock (`patience_us`). Publishing the log is not part of it: that waits for the
commit.
"""

from dataclasses import dataclass

from ledger.closing import close_due, release_due
from ledger.desk import Desk
from ledger.disputes import tend_disputes
from ledger.holdback import holdback_due
from ledger.settlement import GrantPolicy, release_expired

__all__ = ["Tended", "patience_us", "tend"]

_HOUR_US = 3_600_000_000
_AWAY_US = 24 * _HOUR_US  # without a word in the books for so long
_PATIENCE_US = _HOUR_US  # workers try to file again every minute


def patience_us(latest_us: int, now_us: int) -> int:
    """Return the instant before which nothing ends by the clock alone; 0 for none.

    Args:
        latest_us: the latest instant in the books, 0 for a new ledger.
        now_us: when the ledger starts.
    """
    was_away = latest_us and now_us - latest_us > _AWAY_US
    return now_us + _PATIENCE_US if was_away else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tended:
    """How much was done."""

    grants_released: int = 0
    keys_closed: int = 0  # of an earlier program; others close with their grant
    disputes_decided: int = 0  # by the clock
    vouchers_released: int = 0
    holdbacks_released: int = 0
    is_done: bool = True  # nothing more is due now

    def plus(self, following: "Tended") -> "Tended":
        """Return both parts as one."""
        return Tended(
            grants_released=self.grants_released + following.grants_released,
            keys_closed=self.keys_closed + following.keys_closed,
            disputes_decided=self.disputes_decided + following.disputes_decided,
            vouchers_released=self.vouchers_released + following.vouchers_released,
            holdbacks_released=self.holdbacks_released + following.holdbacks_released,
            is_done=following.is_done,
        )


def tend(desk: Desk, policy: GrantPolicy) -> Tended:
    """Do some of what is due."""
    desk.write_out()  # what is due is looked up in what is written
    grants = release_expired(desk, policy)
    if grants:
        desk.write_out()  # what closed with them must not close once more
    closed = close_due(desk)
    is_patient = desk.now_us < policy.patient_until_us
    decided = 0 if is_patient else tend_disputes(desk)
    released = 0 if is_patient else release_due(desk)
    unheld = 0 if is_patient else holdback_due(desk)
    return Tended(
        grants_released=grants,
        keys_closed=closed,
        disputes_decided=decided,
        vouchers_released=released,
        holdbacks_released=unheld,
        is_done=desk.closings.has_seen_all
        and not (grants or decided or released or unheld),
    )
