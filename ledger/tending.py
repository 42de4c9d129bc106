"""What a ledger does by itself as time goes by: release, close, decide, settle.

Contract: `tend` runs on the writer's desk and does a bounded part of what is due; who
gets `is_done` false calls again. Everything is due by the ledger's time alone, so that
calling more often, or later, moves the same value. Publishing the log is not part of
it: that waits for the commit.
"""

from dataclasses import dataclass

from ledger.closing import close_due, release_due
from ledger.desk import Desk
from ledger.disputes import tend_disputes
from ledger.holdback import holdback_due
from ledger.settlement import GrantPolicy, release_expired

__all__ = ["Tended", "tend"]


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
    decided = tend_disputes(desk)
    released = release_due(desk)
    unheld = holdback_due(desk)
    return Tended(
        grants_released=grants,
        keys_closed=closed,
        disputes_decided=decided,
        vouchers_released=released,
        holdbacks_released=unheld,
        is_done=desk.closings.has_seen_all
        and not (grants or decided or released or unheld),
    )
