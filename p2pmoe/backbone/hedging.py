"""When a second worker is asked for what the first one is slow with. Pure.

A hedge costs a worker's time and our money, so it is sent only where it is likely to
pay, and never often:

- not before the call has taken longer than 95 % of its worker's calls do, nor before
  `HEDGE_FLOOR_S`, below which the timer is no better than chance;
- from there on, as soon as the calls that took still longer had, on the mean, more
  time to go than another worker needs for the whole call. A worker whose slow calls
  are only a little slower is waited for until it is slower than ever; one that stalls
  at times is hedged at its p95;
- at most one hedge in `HEDGE_EVERY` dispatches (5 %), saved up to `HEDGE_BURST`, so
  that an outage is not answered with twice the load.
"""

from collections.abc import Sequence

__all__ = ["HEDGE_BURST", "HEDGE_EVERY", "HEDGE_FLOOR_S", "HedgeBudget", "hedge_after"]

HEDGE_EVERY = 20
HEDGE_BURST = 8
HEDGE_FLOOR_S = 0.005
SLOWER_THAN_EVER = 1.1  # times the slowest call known


class HedgeBudget:
    """Hedges that may be sent: each dispatch earns a part of one. Exact."""

    __slots__ = ("_earned",)

    def __init__(self) -> None:
        """Begin with nothing, so that the share holds from the first dispatch on."""
        self._earned = 0  # in parts of a hedge, HEDGE_EVERY each

    def earn(self) -> None:
        """Count a dispatch that is no hedge."""
        self._earned = min(self._earned + 1, HEDGE_EVERY * HEDGE_BURST)

    def spend(self, n: int) -> bool:
        """Take `n` hedges, all or none; False if there are not so many."""
        if self._earned < n * HEDGE_EVERY:
            return False
        self._earned -= n * HEDGE_EVERY
        return True


def hedge_after(tail: Sequence[float], expected_s: float, other_s: float) -> float:
    """Return how long after its sending an unanswered call is to be hedged, in seconds.

    Args:
        tail: what the worker's slowest calls took, as multiples of what was expected,
            ascending; the first is its p95.
        expected_s: what this call was expected to take.
        other_s: what another worker is expected to take for all of it.
    """
    for n_below, ratio in enumerate(tail[:-1], start=1):
        slower = tail[n_below:]
        waited_s = max(ratio * expected_s, HEDGE_FLOOR_S)
        left_s = sum(slower) / len(slower) * expected_s - waited_s
        if left_s > other_s:
            return waited_s
    return max(SLOWER_THAN_EVER * tail[-1] * expected_s, HEDGE_FLOOR_S)
