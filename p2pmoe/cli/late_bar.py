"""A progress bar for what may be over at once: shown only once it has taken a while.

On stderr, on a terminal alone, gone when it is done. `tell` may be called from any
thread, as often as one likes.
"""

import time
from collections.abc import Callable
from types import TracebackType
from typing import IO, Self

__all__ = ["LateBar"]

AFTER_S = 2.0


class LateBar:
    """A bar with a label and a share done; a context that takes it away again."""

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show it on `stream`, None for stderr, after two seconds."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        console = Console(file=stream, stderr=stream is None)
        self._bar = Progress(
            TextColumn("{task.description:<24}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=1.0)
        self._monotonic = monotonic
        self._shown_at = monotonic() + AFTER_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def tell(self, label: str, share: float) -> None:
        """Say what is being done, and its share done, 0 to 1."""
        self._bar.update(self._task, description=label, completed=share)
        if self._monotonic() >= self._shown_at:
            self._bar.start()
