"""The value at risk with one backbone: servings not yet countersigned.

Both ends stop at the float that the grant names (`Grant.float_leaves`). A serving is
live from the moment it is taken until its voucher is countersigned. One that is not
accepted soon after its answer is overdue: late answers and losers of a hedge are never
paid, and an honest backbone has a few. So overdue ones weigh on the float only beyond
one in `FORGIVEN_SHARE` of what that backbone has countersigned; a backbone that
accepts nothing gets one float of work and no more, under any number of tabs.
"""

from dataclasses import dataclass

__all__ = ["FORGIVEN_SHARE", "Exposure"]

FORGIVEN_SHARE = 8


@dataclass(slots=True)
class Exposure:
    """Counts of servings for one backbone over all its tabs with this process."""

    live: int = 0  # taken, answered or accepted; not countersigned yet
    overdue: int = 0  # answered long ago and never accepted
    signed: int = 0  # countersigned

    @property
    def at_risk(self) -> int:
        """Servings that count against the float."""
        return self.live + max(0, self.overdue - self.signed // FORGIVEN_SHARE)
