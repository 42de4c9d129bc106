"""When memory is claimed that the system does not have: page faults tell. Pure.

A major fault waits for the disk. A worker that has many of them, second after second,
holds more than its machine can keep in memory, and answers late however long one waits
(faults B15). A burst, as when a program is loaded, is none; once something was given
back, what comes of it is awaited.
"""

from collections import deque

__all__ = ["FAULTS_S", "ThrashWatch"]

FAULTS_S = 100.0  # major faults a second
WINDOW_S = 10.0  # for so long
_PAUSE_S = 30.0


class ThrashWatch:
    """Looks at a count of major faults; times are monotonic seconds."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self.faults_s = 0.0  # over the last seconds, for people
        self._seen: deque[tuple[float, int]] = deque()
        self._quiet_until = float("-inf")

    def look(self, now: float, n_faults: int) -> bool:
        """Take the count of faults so far; True if it is time to hold less."""
        self._seen.append((now, n_faults))
        while len(self._seen) > 2 and self._seen[1][0] <= now - WINDOW_S:
            self._seen.popleft()
        first, before = self._seen[0]
        over_s = now - first
        self.faults_s = (n_faults - before) / over_s if over_s else 0.0
        if over_s < WINDOW_S or self.faults_s < FAULTS_S or now < self._quiet_until:
            return False
        self._quiet_until = now + _PAUSE_S
        self._seen.clear()
        return True
