"""How far fetching is, for a command that goes on: a bar that comes and goes.

A `LateBar` for each thing that takes its time, taken away when its share is 1. `tell`
may be called from any one thread; `close` takes away what an error left.
"""

from collections.abc import Callable

from p2pmoe.cli.late_bar import LateBar

__all__ = ["FetchBar"]


class FetchBar:
    """A bar that is there while something is told of, and gone when it is done."""

    def __init__(self, open_bar: Callable[[], LateBar] = LateBar) -> None:
        """Show nothing yet."""
        self._open_bar = open_bar
        self._bar: LateBar | None = None

    def tell(self, label: str, share: float) -> None:
        """Say what is being done, and its share done, 0 to 1."""
        if self._bar is None:
            self._bar = self._open_bar().__enter__()
        self._bar.tell(label, share)
        if share >= 1:
            self.close()

    def close(self) -> None:
        """Take the bar away, if it is there."""
        bar, self._bar = self._bar, None
        if bar is not None:
            bar.__exit__(None, None, None)
