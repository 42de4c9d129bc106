"""How well one path to one peer does, by sealed probes. No I/O.

One probe is under way at a time. The round trip of a path is the median of its last
five, so that one probe behind a burst changes nothing. Probes and their answers travel
in the class of the data (interactive), so that they wait where the data would wait.
"""

from statistics import median
from typing import Final

__all__ = ["Meter"]

_N_TRIPS: Final = 5
_MIN_PATIENCE_S: Final = 0.6
_TRIPS_OF_PATIENCE: Final = 3.0


class Meter:
    """Probes of one path, and its signs of life.

    proven: the peer answered a probe by this very path. doubted: a later one was lost;
    nothing should go this way until one is answered. alive_at, probed_at, answered_at:
    the last sign of life, probe and answer on the monotonic clock; minus infinity for
    never. round_trip_s: None until the first answer, and again after a doubt.
    """

    __slots__ = (
        "_token",
        "_trips",
        "alive_at",
        "answered_at",
        "doubted",
        "probed_at",
        "proven",
        "round_trip_s",
    )

    def __init__(self) -> None:
        self.alive_at = self.probed_at = self.answered_at = float("-inf")
        self.round_trip_s: float | None = None
        self.proven = self.doubted = False
        self._token: int | None = None
        self._trips: tuple[float, ...] = ()

    @property
    def is_waiting(self) -> bool:
        """Whether the last probe has had no answer yet."""
        return self._token is not None

    def probed(self, token: int, now: float) -> None:
        """Note that a probe leaves now; one that has no answer yet is given up."""
        self._token = token
        self.probed_at = now

    def answered(self, token: int, now: float) -> bool:
        """Take an answer that came by this path; tell whether it is the awaited one."""
        if token != self._token:
            return False
        self._token = None
        self.alive_at = self.answered_at = now
        if self.doubted:  # it is back: what it was before, or just now, says little
            self.doubted, self._trips, self.round_trip_s = False, (), None
            return True
        self.proven = True
        self._trips = (*self._trips, now - self.probed_at)[-_N_TRIPS:]
        self.round_trip_s = median(self._trips)
        return True

    def is_overdue(self, now: float) -> bool:
        """Tell whether the probe under way must be taken for lost.

        A sign of life that came after the probe left is as good as its answer. A path
        of up to 200 ms there and back is given 0.6 s, a longer one three round trips.
        """
        if self._token is None or self.alive_at >= self.probed_at:
            return False
        trip_s = self.round_trip_s or 0.0
        patience_s = max(_MIN_PATIENCE_S, _TRIPS_OF_PATIENCE * trip_s)
        return now - self.probed_at >= patience_s
