"""What waits for the end of a reader's turn: first all frames are read, then written.

While one task reads what came from a peer, writers with something new ask to be called
when it is done; so what one turn brings for a destination leaves in one write, and no
change of tasks is needed for it. Outside a turn nothing can wait here. No I/O.
"""

from collections.abc import Callable

__all__ = ["Turn"]


class Turn:
    """The calls that are due when the turn under way ends, in order."""

    __slots__ = ("_calls", "_is_open")

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []
        self._is_open = False

    def join(self, call: Callable[[], None]) -> bool:
        """Have `call` made at the end of the turn; tell whether there is one."""
        if self._is_open:
            self._calls.append(call)
        return self._is_open

    def begin(self) -> None:
        """Begin a turn; it must end before its task waits for anything."""
        self._is_open = True

    def end(self) -> None:
        """Make the calls. What they cause does not join any more."""
        self._is_open = False
        calls, self._calls = self._calls, []
        for call in calls:
            call()
