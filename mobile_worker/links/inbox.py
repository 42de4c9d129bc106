"""A bounded queue of what peers ask for, in which none can take the room of others.

`put` never waits: it says False if the queue is full, or if this peer's share of it is,
in number or in bytes. What is taken out makes room again. One consumer or several.
"""

from collections import Counter, deque
from typing import Generic, Self, TypeVar

import trio

from relay.keys import PeerId

__all__ = ["Inbox"]

_Item = TypeVar("_Item")


class Inbox(Generic[_Item]):
    """Items of peers in order of arrival; an async iterator of (peer, item)."""

    def __init__(
        self, *, max_items: int, max_of_peer: int, max_bytes: int = 1 << 62
    ) -> None:
        """Hold so many items, so many of one peer, and so many bytes of all.

        One peer may fill a quarter of the bytes, or put in one item of any size that
        still fits.
        """
        self._max_items = max_items
        self._max_of_peer = max_of_peer
        self._max_bytes = max_bytes
        self._items: deque[tuple[PeerId, _Item, int]] = deque()
        self._n_of: Counter[PeerId] = Counter()
        self._bytes_of: Counter[PeerId] = Counter()
        self._n_bytes = 0
        self._waiting = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """Return how many items wait."""
        return len(self._items)

    def put(self, peer: PeerId, item: _Item, n_bytes: int = 0) -> bool:
        """Add an item of `n_bytes`; False if there is no room for it."""
        n_of_peer = self._n_of[peer]
        is_over = n_of_peer and self._bytes_of[peer] + n_bytes > self._max_bytes // 4
        if (
            is_over
            or n_of_peer >= self._max_of_peer
            or len(self._items) >= self._max_items
            or self._n_bytes + n_bytes > self._max_bytes
        ):
            return False
        self._count(peer, 1, n_bytes)
        self._items.append((peer, item, n_bytes))
        self._waiting.unpark()
        return True

    def __aiter__(self) -> Self:
        """Iterate for ever."""
        return self

    async def __anext__(self) -> tuple[PeerId, _Item]:
        """Wait for the oldest item and take it out."""
        await trio.lowlevel.checkpoint()
        while not self._items:
            await self._waiting.park()
        peer, item, n_bytes = self._items.popleft()
        self._count(peer, -1, -n_bytes)
        return peer, item

    def _count(self, peer: PeerId, n: int, n_bytes: int) -> None:
        self._n_bytes += n_bytes
        self._n_of[peer] += n
        self._bytes_of[peer] += n_bytes
        if not self._n_of[peer]:
            del self._n_of[peer], self._bytes_of[peer]
