"""A bounded queue of peers' questions that serves peers in turn, not by arrival.

One peer that asks for a thousand pieces does not make another wait for all of them:
after each piece it is the next peer's turn, and each peer's own questions keep their
order. `put` never waits: it says False if the queue, or this peer's share, is full.
"""

from collections import OrderedDict, deque
from typing import Generic, Self, TypeVar

import trio

from relay.keys import PeerId

__all__ = ["Turns"]

_Item = TypeVar("_Item")


class Turns(Generic[_Item]):
    """Items of peers; an async iterator of (peer, item) for one consumer or several."""

    def __init__(self, *, max_items: int, max_of_peer: int) -> None:
        """Hold so many items, and so many of one peer."""
        self._max_items = max_items
        self._max_of_peer = max_of_peer
        self._of_peer: OrderedDict[PeerId, deque[_Item]] = OrderedDict()
        self._n_items = 0
        self._waiting = trio.lowlevel.ParkingLot()

    def __len__(self) -> int:
        """Return how many items wait."""
        return self._n_items

    def put(self, peer: PeerId, item: _Item) -> bool:
        """Add an item; False if there is no room for it."""
        items = self._of_peer.get(peer)
        n_of_peer = 0 if items is None else len(items)
        if self._n_items >= self._max_items or n_of_peer >= self._max_of_peer:
            return False
        if items is None:
            items = self._of_peer[peer] = deque()
        items.append(item)
        self._n_items += 1
        self._waiting.unpark()
        return True

    def __aiter__(self) -> Self:
        """Iterate for ever."""
        return self

    async def __anext__(self) -> tuple[PeerId, _Item]:
        """Wait for an item of the peer whose turn it is, and take it out."""
        await trio.lowlevel.checkpoint()
        while not self._of_peer:
            await self._waiting.park()
        peer, items = self._of_peer.popitem(last=False)
        item = items.popleft()
        self._n_items -= 1
        if items:
            self._of_peer[peer] = items  # behind all others
        return peer, item
