"""Rounds of measuring on a machine that others may use at the same time.

Everything here runs on one core (`one_core`), so a round in which the process had less
of that core than the clock says was disturbed by other work. Such rounds are measured
again, up to as many as were asked for; of all rounds those count that had most of the
core. The choice never looks at the speed found. On a quiet machine nothing is chosen.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

__all__ = ["Stopwatch", "Timed", "measured_rounds"]

_UNDISTURBED: Final = 0.97


@dataclass(frozen=True, slots=True)
class Timed:
    """A rate, and the share of the core that its process had meanwhile."""

    rate: float
    share: float


class Stopwatch:
    """Seconds by the clock and of this process, from its making on."""

    def __init__(self) -> None:
        """Start."""
        self._start = time.perf_counter()
        self._own = time.process_time()

    def seconds(self) -> float:
        """Return seconds by the clock."""
        return time.perf_counter() - self._start

    def share(self) -> float:
        """Return the share of the core that this process had."""
        return (time.process_time() - self._own) / self.seconds()

    def timed(self, work: float) -> Timed:
        """Return `work` per second so far."""
        return Timed(work / self.seconds(), self.share())


def measured_rounds(
    measures: Sequence[Callable[[], Timed]], n_rounds: int
) -> list[list[float]]:
    """Call all measures in turn, round by round; return `n_rounds` rates of each.

    In turn, so that what changes on the machine falls on all of them.
    """
    rounds: list[list[Timed]] = []
    while len(rounds) < 2 * n_rounds:
        rounds.append([measure() for measure in measures])
        if sum(_share(one) >= _UNDISTURBED for one in rounds) == n_rounds:
            break
    best = sorted(rounds, key=_share, reverse=True)[:n_rounds]
    return [[one[number].rate for one in best] for number in range(len(measures))]


def _share(one: Sequence[Timed]) -> float:
    return min(timed.share for timed in one)
