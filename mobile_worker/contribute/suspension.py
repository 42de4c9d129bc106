"""Noticing that this machine slept: wall time moved on and the monotonic clock did not.

While a machine sleeps its monotonic clock may stop, so that a lease looks valid which
has lapsed long ago elsewhere (faults B28). No I/O; both clocks are passed in.
"""

__all__ = ["SuspensionWatch"]

_JUMP_S = 30.0


class SuspensionWatch:
    """Compares the two clocks from look to look."""

    def __init__(self) -> None:
        """Start at the first look."""
        self._offset_s: float | None = None

    def look(self, monotonic_s: float, wall_us: int) -> bool:
        """Say whether more than 30 s passed unseen since the last look.

        A wall clock set back, or by less, is none of our business.
        """
        offset_s = wall_us / 1e6 - monotonic_s
        before, self._offset_s = self._offset_s, offset_s
        return before is not None and offset_s - before > _JUMP_S
