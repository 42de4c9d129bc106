"""The queue from a node to its owner: filled by plain calls, emptied by one task.

It has no bound of its own: what peers may put in is bounded by the byte credit that the
node grants them, and credit comes back only when an event is taken. When the queue is
closed, iteration ends after the last event.

`take_each` is the quick way to empty it: while its task waits, what `put_soon` added is
taken by `flush` within the task that brought it, which saves a turn of the scheduler.
Then the owner runs inside the node's call; so `flush` is the last thing that such a
call does, and what the owner's work adds to the queue waits for its turn.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Generic, Self, TypeVar

import trio

from mobile_worker.links.events import NodeEvent

__all__ = ["Arrivals", "take_each"]

_EVENTS_WITHOUT_CHECKPOINT = 16
_Receipt = TypeVar("_Receipt")


class Arrivals(Generic[_Receipt]):
    """Events in order; an async iterator for one consumer at a time."""

    def __init__(self, taken: Callable[[_Receipt], None]) -> None:
        """Call `taken` with the receipt of each event as the consumer takes it."""
        self._taken = taken
        self._events: deque[tuple[NodeEvent, _Receipt | None]] = deque()
        self._waiting = trio.lowlevel.ParkingLot()
        self._closed = False
        self._n_since_checkpoint = 0
        self._take: Callable[[NodeEvent], None] | None = None  # while it may be called
        self._error: Exception | None = None

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: NodeEvent, receipt: _Receipt | None = None) -> None:
        """Add an event; wakes the consumer."""
        self._events.append((event, receipt))
        self._waiting.unpark()

    def put_soon(self, event: NodeEvent, receipt: _Receipt | None = None) -> None:
        """Add an event; `flush` must follow."""
        self._events.append((event, receipt))

    def flush(self) -> None:
        """Have what is queued taken now, or wake the consumer if that cannot be."""
        take = self._take
        if take is None:
            self._waiting.unpark()
            return
        self._take = None  # what it causes waits for its turn
        try:
            for _ in range(_EVENTS_WITHOUT_CHECKPOINT):
                if not self._events:
                    break
                take(self._next())
        except Exception as error:  # noqa: BLE001  # the consumer's, raised there
            self._error = error
        self._take = take
        if self._events or self._error is not None:
            self._take = None
            self._waiting.unpark()

    def close(self) -> None:
        """End the iteration once the queue is empty."""
        self._closed = True
        self._waiting.unpark_all()

    async def take_each(self, take: Callable[[NodeEvent], None]) -> None:
        """Call `take` with each event until the queue is closed.

        What `take` raises ends this, wherever it was called.
        """
        while True:
            while self._events:
                await self._breathe()
                take(self._next())
            if self._closed:
                return
            self._take = take
            try:
                await self._waiting.park()
            finally:
                self._take = None
            if self._error is not None:
                raise self._error

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> NodeEvent:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._n_since_checkpoint = 0
            await self._waiting.park()
        await self._breathe()
        return self._next()

    async def _breathe(self) -> None:
        """Give others a turn now and then."""
        self._n_since_checkpoint += 1
        if self._n_since_checkpoint > _EVENTS_WITHOUT_CHECKPOINT:
            self._n_since_checkpoint = 0
            await trio.lowlevel.checkpoint()

    def _next(self) -> NodeEvent:
        event, receipt = self._events.popleft()
        if receipt is not None:
            self._taken(receipt)
        return event


async def take_each(
    events: AsyncIterator[NodeEvent], take: Callable[[NodeEvent], None]
) -> None:
    """Call `take` with each of a node's events, in the quickest way there is."""
    if isinstance(events, Arrivals):
        await events.take_each(take)
        return
    async for event in events:
        take(event)
