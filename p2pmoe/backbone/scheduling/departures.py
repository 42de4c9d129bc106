"""After how many seconds another try may succeed, by how often requests end. Pure."""

__all__ = ["Departures"]

_WEIGHT = 0.2  # of the latest interval
_LEAST_S, _MOST_S = 1.0, 60.0


class Departures:
    """A moving average of the seconds between the ends of requests."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self._last: float | None = None
        self._interval_s: float | None = None

    def left(self, now: float) -> None:
        """Note that a request ended at `now`, monotonic seconds."""
        if self._last is not None:
            interval = max(0.0, now - self._last)
            before = interval if self._interval_s is None else self._interval_s
            self._interval_s = before + _WEIGHT * (interval - before)
        self._last = now

    def retry_s(self, n_waiting: int) -> float:
        """Return when half of those who wait will be gone, within 1 and 60 seconds."""
        each = _LEAST_S if self._interval_s is None else self._interval_s
        return min(_MOST_S, max(_LEAST_S, each * n_waiting / 2))
