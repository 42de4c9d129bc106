"""The queue from a node to its owner: filled by plain calls, emptied by one task.

It has no bound of its own: what peers may put in is bounded by the byte credit that the
node grants them, and credit comes back only when `taken` is called for an event. When
the queue is closed, iteration ends after the last event.
"""

from collections import deque
from collections.abc import Callable
from typing import Self

import trio

from mobile_worker.links.events import NodeEvent

__all__ = ["Arrivals"]

_EVENTS_WITHOUT_CHECKPOINT = 16


class Arrivals:
    """Events in order; an async iterator for one consumer at a time."""

    def __init__(self, taken: Callable[[NodeEvent], None]) -> None:
        """Call `taken` with each event as the consumer takes it."""
        self._taken = taken
        self._events: deque[NodeEvent] = deque()
        self._waiting = trio.lowlevel.ParkingLot()
        self._closed = False
        self._n_since_checkpoint = 0

    def __len__(self) -> int:
        return len(self._events)

    def put(self, event: NodeEvent) -> None:
        """Add an event; wakes the consumer."""
        self._events.append(event)
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
        event = self._events.popleft()
        self._taken(event)
        return event
