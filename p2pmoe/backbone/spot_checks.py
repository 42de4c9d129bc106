"""Which share of remote answers is recomputed here. Pure.

All of the first, then 5 % until 200 have passed, 1 % until 2,000, then 0.2 %: what a
cheat gains by one wrong answer must stay below what it loses when one is found (design
06, "Verification").
"""

from dataclasses import dataclass

__all__ = ["SpotChecks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotChecks:
    """Which share of answers is recomputed here: first ones all, newcomers' more."""

    settled_rate: float = 0.002
    settled_passes: int = 2000
    rate: float = 0.01
    newcomer_rate: float = 0.05
    newcomer_passes: int = 200
    first_passes: int = 0

    def vouches(self, passes: int) -> bool:
        """Whether a worker with so many passed checks proves others by agreeing."""
        return passes >= max(1, self.newcomer_passes)

    def share(self, passes: int) -> float:
        """Return the share for a worker with so many passed checks."""
        if passes < self.first_passes:
            return 1.0
        if passes >= self.newcomer_passes:
            is_settled = passes >= max(self.settled_passes, self.newcomer_passes)
            return min(self.rate, self.settled_rate) if is_settled else self.rate
        return max(self.rate, self.newcomer_rate)
