"""Whether a relay still lives, by what was read of it. Pure: no clock, no I/O.

Any byte counts as life. After `after_s` of silence a ping is due, and `timeout_s` later
the relay is dead. A look that comes late (this process stood still, or the machine was
busy) blames nobody: what the relay said meanwhile still lies unread in the kernel, so
an outstanding ping gets its time anew.
"""

from enum import Enum, auto
from typing import Final

__all__ = ["LifeSign", "Liveness"]

_LATE_S: Final = 2.0


class LifeSign(Enum):
    """What a look found."""

    ALIVE = auto()
    PING_DUE = auto()
    SILENT = auto()


class Liveness:
    """Looked at once every `every_s`."""

    __slots__ = ("_after_s", "_every_s", "_looked_at", "_pinged_at", "_timeout_s")

    def __init__(
        self, *, after_s: float, timeout_s: float, every_s: float, now: float
    ) -> None:
        self._after_s = after_s
        self._timeout_s = timeout_s
        self._every_s = every_s
        self._looked_at = now
        self._pinged_at: float | None = None

    def look(self, now: float, last_read: float) -> LifeSign:
        """Judge by when something was last read; PING_DUE once for each silence."""
        is_late = now - self._looked_at > self._every_s + _LATE_S
        self._looked_at = now
        if now - last_read < self._after_s:
            self._pinged_at = None
        elif self._pinged_at is None:
            self._pinged_at = now
            return LifeSign.PING_DUE
        elif is_late:
            self._pinged_at = now
        elif now - self._pinged_at >= self._timeout_s:
            return LifeSign.SILENT
        return LifeSign.ALIVE
