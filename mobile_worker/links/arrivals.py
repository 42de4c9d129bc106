"""The queue from a node to its owner: filled by plain calls, emptied by one task.

It has no bound of its own: what peers may put in is bounded by the byte credit that the
node grants them, and credit comes back only when `taken` is called with the receipt of
an event. When the queue is closed, iteration ends after the last event.
"""

from collections import deque
from collections.abc import Callable
from typing import Generic, Self, TypeVar

import trio

from mobile_worker.links.events import NodeEvent

__all__ = ["Arrivals"]

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

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: NodeEvent, receipt: _Receipt | None = None) -> None:
        """Add an event; wakes the consumer."""
        self._events.append((event, receipt))
        self._waiting.unpark()

    def close(self) -> None:
        """End the iteration once the queue is empty."""
        self._closed = True
        self._waiting.unpark_all()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> NodeEvent:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            self._n_since_checkpoint = 0
            await self._waiting.park()
        self._n_since_checkpoint += 1
        if self._n_since_checkpoint > _EVENTS_WITHOUT_CHECKPOINT:
            self._n_since_checkpoint = 0
            await trio.lowlevel.checkpoint()
        event, receipt = self._events.popleft()
        if receipt is not None:
            self._taken(receipt)
        return event
