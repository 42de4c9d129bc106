"""One exception instead of a nursery's group around it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["only_exception"]


@asynccontextmanager
async def only_exception() -> AsyncIterator[None]:
    """Take the one exception out of a nursery's group, so that callers can catch it.

    For a nursery whose own tasks raise nothing: what comes out is then the caller's.
    Several exceptions stay a group.
    """
    try:
        yield
    except BaseExceptionGroup as group:
        if len(group.exceptions) != 1:
            raise
        only = group.exceptions[0]
    else:
        return
    raise only
