"""Run what would go to a worker thread at once, so that an autojump clock waits for it.

An autojump clock jumps whenever every task waits, and a task that waits for a thread
waits: an hour can pass while a file is written. Tests of timing therefore run the
thread's work in place.
"""

from collections.abc import Callable
from typing import Any

import pytest
import trio

__all__ = ["inline_threads"]


def inline_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace `trio.to_thread.run_sync` for the rest of the test."""

    async def run_sync(
        function: Callable[..., Any], *arguments: object, **_: object
    ) -> object:
        await trio.lowlevel.checkpoint()
        return function(*arguments)

    monkeypatch.setattr(trio.to_thread, "run_sync", run_sync)
