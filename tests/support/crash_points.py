"""kill -9 of a process at its n-th step towards the disk or the outside.

A child is forked, every call that changes something lasting is made to count before
and after it happens, and at the chosen count the child kills itself with SIGKILL: no
clock and no luck is involved. What it was told comes through a pipe, a line each.
"""

import os
import pathlib
import signal
from collections.abc import Callable
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Engine

from ledger.desk import Desk

__all__ = ["CrashPoints", "crashed_at"]

_CALLS = ("write", "fsync", "replace", "rename", "truncate", "ftruncate", "unlink")


class CrashPoints:
    """Counts steps in the child, and ends it at one of them."""

    def __init__(self, at: int, pipe: int) -> None:
        self._at = at
        self._pipe = pipe
        self._write = os.write  # as it is before it counts
        self.n = 0

    def reach(self) -> None:
        """Come to a point; the process may end here."""
        self.n += 1
        if self.n == self._at:
            os.kill(os.getpid(), signal.SIGKILL)

    def tell(self, line: str) -> None:
        """Say what was acknowledged; said before anything else can happen."""
        self._write(self._pipe, f"{line}\n".encode())

    def install(self) -> None:
        """Make every lasting step of this process count, from here to its end."""
        for name in _CALLS:
            setattr(os, name, self._counted(getattr(os, name)))
        pathlib.Path.open = self._counted(pathlib.Path.open)  # type: ignore[method-assign]
        Desk.committed = self._counted(Desk.committed)  # type: ignore[method-assign]
        for name in ("begin", "commit", "before_cursor_execute"):
            event.listen(Engine, name, lambda *_: self.reach())

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self.reach()
            result = call(*args, **options)
            self.reach()
            return result

        return counted


def crashed_at(
    at: int, history: Callable[[CrashPoints], None]
) -> tuple[bool, list[str]]:
    """Run a history in a child that ends at point `at`; 0 lets it come to its end.

    Returns:
        Whether it was killed, and the lines that it told; at its end how many points
        there were is the last of them.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            points = CrashPoints(at, writing)
            points.install()
            history(points)
            points.tell(f"points {points.n}")
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        lines = pipe.read().decode().splitlines()
    _, status = os.waitpid(child, 0)
    was_killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    assert was_killed or os.waitstatus_to_exitcode(status) == 0, (at, lines)
    return was_killed, lines
