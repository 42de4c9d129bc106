"""A condition that closes and opens with thresholds and waits apart: no flapping. Pure.

What is bad must have been so for `close_after_s` before the latch closes, and what is
good for `open_after_s` before it opens again; between bad and good nothing changes. So
whatever its readings do, a latch opens at most once in `open_after_s`.
"""

__all__ = ["Latch"]


class Latch:
    """Open at first, unless it is told to be closed. Times are monotonic seconds."""

    def __init__(
        self,
        *,
        close_after_s: float = 0.0,
        open_after_s: float = 60.0,
        is_closed: bool = False,
    ) -> None:
        self.is_closed = is_closed
        self.is_overridden = False
        self._close_after_s = close_after_s
        self._open_after_s = open_after_s
        self._since: float | None = None  # what would change it has held since then

    @property
    def holds(self) -> bool:
        """Whether it is closed and nobody overrode that."""
        return self.is_closed and not self.is_overridden

    def look(self, now: float, *, is_bad: bool, is_good: bool) -> bool:
        """Take in how things are now; return `holds`."""
        towards_change = is_good and not is_bad if self.is_closed else is_bad
        if not towards_change:
            self._since = None
            return self.holds
        if self._since is None or now < self._since:
            self._since = now
        wait_s = self._open_after_s if self.is_closed else self._close_after_s
        if now - self._since >= wait_s:
            self.is_closed = not self.is_closed
            self.is_overridden = False
            self._since = None
        return self.holds

    def override(self) -> None:
        """Let it pass until it has opened by itself; then it may close again."""
        self.is_overridden = self.is_closed
