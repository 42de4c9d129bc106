"""The value at risk with one backbone: servings not yet countersigned.

Both ends stop at the float that the grant names (`Grant.float_leaves`). A serving is
live from the moment it is taken until its voucher is countersigned. One that is not
accepted soon after its answer is overdue: late answers and losers of a hedge are never
paid, and an honest backbone has a few. So overdue ones weigh on the float only beyond
one in `FORGIVEN_SHARE` of what that backbone has countersigned, and only for
`FORGIVEN_AFTER_S`: a backbone that was killed with many in flight is served again, and
one that accepts nothing gets one float of work in that time, under any number of tabs.
"""

from collections import deque
from dataclasses import dataclass, field

__all__ = ["FORGIVEN_AFTER_S", "FORGIVEN_SHARE", "Exposure"]

FORGIVEN_SHARE = 8
FORGIVEN_AFTER_S = 600.0
_MERGED_S = 1.0  # those that become overdue together are one entry


@dataclass(slots=True)
class Exposure:
    """Counts of servings for one backbone over all its tabs with this process."""

    live: int = 0  # taken, answered or accepted; not countersigned yet
    overdue: int = 0  # answered long ago and never accepted
    signed: int = 0  # countersigned
    _now: float = 0.0
    _since: deque[tuple[float, int]] = field(default_factory=deque)

    @property
    def at_risk(self) -> int:
        """Servings that count against the float."""
        return self.live + max(0, self.overdue - self.signed // FORGIVEN_SHARE)

    def tick(self, now: float) -> None:
        """Let time pass: what has been overdue for long weighs no more."""
        self._now = max(self._now, now)
        while self._since and self._since[0][0] <= self._now - FORGIVEN_AFTER_S:
            self.overdue -= self._since.popleft()[1]

    def unclaimed(self, n: int) -> None:
        """Let `n` live servings become overdue."""
        if n <= 0:
            return
        self.live -= n
        self.overdue += n
        if self._since and self._now - self._since[-1][0] < _MERGED_S:
            since, n_before = self._since.pop()
            self._since.append((since, n_before + n))
        else:
            self._since.append((self._now, n))

    def claimed(self) -> None:
        """Let one overdue serving be live again: it was accepted after all."""
        self.live += 1
        if self._since:  # else it was forgiven meanwhile
            since, n = self._since.pop()
            self.overdue -= 1
            if n > 1:
                self._since.append((since, n - 1))
