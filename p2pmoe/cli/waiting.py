"""A spinner on stderr while nothing comes yet: on a terminal, and only after a moment.

It is gone before the first output; elsewhere than on a terminal nothing is shown.
"""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import IO, Self

__all__ = ["Waiting"]

AFTER_S = 0.5

Timer = Callable[[float, Callable[[], None]], threading.Timer]


class Waiting:
    """A context; call `over` before anything is printed."""

    def __init__(
        self,
        label: str,
        stream: IO[str] | None = None,
        *,
        timer: Timer = threading.Timer,
    ) -> None:
        """Say what is waited for, on `stream` or stderr, after half a second."""
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        console = Console(file=stream, stderr=stream is None)
        self._shown = console.is_terminal and not console.is_dumb_terminal
        self._spinner = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._spinner.add_task(label, total=None)
        self._timer = timer(AFTER_S, self._spinner.start)
        self._timer.daemon = True
        self._is_over = False

    def __enter__(self) -> Self:
        if self._shown:
            self._timer.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.over()

    def over(self) -> None:
        """Take the spinner away; may be called again."""
        if self._is_over or not self._shown:
            return
        self._is_over = True
        self._timer.cancel()
        self._timer.join()
        self._spinner.stop()
