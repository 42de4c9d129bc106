"""Which share of remote answers is recomputed here. Pure."""

from dataclasses import dataclass

__all__ = ["SpotChecks"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpotChecks:
    """Which share of answers is recomputed here: first ones all, newcomers' more."""

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
            return self.rate
        return max(self.rate, self.newcomer_rate)
