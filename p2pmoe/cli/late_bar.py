"""A progress bar for what may be over at once: shown only once it has taken a while.

On stderr; on a terminal it is gone when it is done. Elsewhere a line is written every
ten seconds. `tell` may be called from any thread, as often as one likes.
"""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import IO, Self

__all__ = ["LateBar"]

AFTER_S = 2.0
LINE_EVERY_S = 10.0

Timer = Callable[[float, Callable[[], None]], threading.Timer]


class LateBar:
    """A bar with a label and a share done; a context that takes it away again."""

    def __init__(
        self,
        stream: IO[str] | None = None,
        *,
        timer: Timer = threading.Timer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Show it on `stream`, None for stderr, two seconds after it is entered."""
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
        self._timer = timer(AFTER_S, self._bar.start)
        self._timer.daemon = True
        self._stream = None if console.is_terminal else stream or sys.stderr
        self._monotonic = monotonic
        self._told_at = monotonic()

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._timer.cancel()
        self._timer.join()
        self._bar.stop()

    def tell(self, label: str, share: float) -> None:
        """Say what is being done, and its share done, 0 to 1."""
        self._bar.update(self._task, description=label, completed=share)
        if self._stream is None:
            return
        now = self._monotonic()
        if now - self._told_at >= LINE_EVERY_S:
            self._told_at = now
            with suppress(OSError, ValueError):  # a full disk, or closed
                print(f"{label}: {share:.0%}", file=self._stream, flush=True)
