"""What a person is told of the start: how many experts are covered, and when to ask.

A line when covering begins and at each further tenth, one when requests are taken; from
then on one when the last uncovered expert finds a holder, or the first loses its last.
An expert is covered if it is in memory here or a live worker holds it. Pure.
"""

from p2pmoe.backbone.generation import Phase, Readiness

__all__ = ["StartReport"]

_STEP = 0.1


class StartReport:
    """Remembers what was said; `line` returns what is to be said now, if anything."""

    def __init__(self, *, in_network: bool, has_disk: bool) -> None:
        """Say nothing yet."""
        self._in_network = in_network
        self._has_disk = has_disk
        self._phase = Phase.LOADING
        self._told = 0.0

    def line(self, readiness: Readiness, n_covered: int, n_experts: int) -> str | None:
        """Return the line for this look at the readiness; None if it is old news."""
        phase, share = readiness.phase, readiness.covered
        is_new = phase is not self._phase
        was_whole, is_whole = self._told >= 1.0, share >= 1.0
        if phase is Phase.COVERING:
            due = is_new or share >= self._told + _STEP
        else:
            due = phase is Phase.READY and (is_new or was_whole != is_whole)
        if not due:
            return None
        self._phase, self._told = phase, share
        if not self._in_network:
            return "ready, without a network: every expert is computed here"
        covered = f"{n_covered} of {n_experts} experts in memory or held by workers"
        if phase is Phase.COVERING:
            return f"not ready: {covered}{self._patience() if is_new else ''}"
        rest = "" if is_whole else self._rest()
        return f"ready: {covered}{rest}"

    def _patience(self) -> str:
        if not self._has_disk:
            return "; waiting for workers"
        return "; waiting a while for workers, then the disk does"

    def _rest(self) -> str:
        if self._has_disk:
            return "; the rest is computed here from disk"
        return "; who needs another one waits for a worker"
