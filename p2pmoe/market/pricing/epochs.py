"""Price epochs: equal spans of the wall clock, numbered from 1970.

Two markets on one clock, or one before and after a restart, number them alike. Pure.
"""

from dataclasses import dataclass

__all__ = ["EPOCH_S", "MAX_EPOCH", "Epoch", "epoch_at"]

EPOCH_S = 600
MAX_EPOCH = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Epoch:
    """One span, half-open, in microseconds since 1970 UTC."""

    number: int
    from_us: int
    to_us: int


def epoch_at(wall_us: int, length_us: int) -> Epoch:
    """Return the epoch that an instant lies in."""
    number = min(wall_us // length_us, MAX_EPOCH)
    return Epoch(number, number * length_us, (number + 1) * length_us)
