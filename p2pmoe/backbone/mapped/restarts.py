"""When a child may be started: at once the first time, then rarely. Pure.

A process that dies as often as it is started would else take the machine with it
(fault B15).
"""

__all__ = ["PAUSE_S", "RestartTimes"]

PAUSE_S = 30.0  # between two starts


class RestartTimes:
    """Remembers the last start; times are monotonic seconds."""

    def __init__(self, pause_s: float = PAUSE_S) -> None:
        """Allow a start at once, and the next `pause_s` after it."""
        self._pause_s = pause_s
        self._started_at = float("-inf")
        self.n_starts = 0

    def may_start(self, now: float) -> bool:
        """Say whether to start one now; if so, it counts as started."""
        if now - self._started_at < self._pause_s:
            return False
        self._started_at = now
        self.n_starts += 1
        return True
