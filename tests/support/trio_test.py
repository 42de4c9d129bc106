"""Run async tests under trio, with a clock that jumps instead of waiting."""

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import trio
import trio.testing

__all__ = ["trio_test"]


def trio_test(
    function: Callable[..., Awaitable[None]] | None = None, *, autojump: bool = False
) -> Callable[..., Any]:
    """Make a plain test of an async one; `autojump=True` skips over all sleeping."""
    if function is None:
        return functools.partial(trio_test, autojump=autojump)

    @functools.wraps(function)
    def run(*args: object, **kwargs: object) -> None:
        clock = trio.testing.MockClock(autojump_threshold=0) if autojump else None
        trio.run(functools.partial(function, *args, **kwargs), clock=clock)

    return run
