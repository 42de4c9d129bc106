"""Answers GET: pieces of the shards that are held in memory or lie in the store.

A backbone that fetches weights before a pass waits for all of them, so what is in
memory is answered at once and in order; of several peers each has its turn. It is
answered in the bulk class: at every queue on the way results of dispatches go first.
Bounds: so many questions of one peer and of all wait here, and no peer has more than
32 MiB of answers waiting to be sent; above that it is told BUSY. A piece is at most
`MAX_ANSWER_BYTES`. The store is read on a thread, and what is asked of it, or is not
here at all, waits in a queue of its own, so that nobody holds up what is in memory by
asking for that.
"""

import logging
from collections.abc import Callable
from typing import Final

import trio

from mobile_worker import messages
from mobile_worker.contribute.turns import Turns
from mobile_worker.errors import LocalError
from mobile_worker.governor.pacing import Pacer
from mobile_worker.links.node import Node
from mobile_worker.shards.desk import answer_get, busy_blob
from mobile_worker.shards.errors import ShardMissing
from relay.keys import PeerId, short_id

__all__ = ["ReadRange", "ShardService"]

logger = logging.getLogger("p2pmoe.contribute")

ReadRange = Callable[[str, int, int], tuple[int, bytes]]

_MAX_GETS: Final = 4096
_MAX_OF_PEER: Final = 2048
_MAX_WAITING_BYTES: Final = 32 << 20
_MAX_LATE_S: Final = 0.5  # behind the rate of sending: results go first


class ShardService:
    """The shards of one worker, for whoever asks."""

    def __init__(
        self, node: Node, *, held: Callable[[bytes], bytes | None], stored: ReadRange
    ) -> None:
        """Answer through `node`.

        `held` returns a whole shard by its SHA-256 if it is in memory; `stored` reads a
        range of any other, blocking, by the name in hex; it raises ShardError.
        """
        self._node = node
        self._held = held
        self._stored = stored
        self._of_memory, self._of_store = _inbox(), _inbox()
        self.n_bytes = 0  # of shards, answered since the start
        self.is_paused = False  # whoever asks is told BUSY
        self.pace = Pacer()

    def asked(self, peer: PeerId, get: messages.Get) -> None:
        """Take a question; it is answered by `run`."""
        is_held = self._held(get.digest) is not None
        gets = self._of_memory if is_held else self._of_store
        if self.is_paused or not gets.put(peer, get):
            self._say(peer, busy_blob(get))

    async def run(self) -> None:
        """Answer until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._answer, self._of_memory)
            nursery.start_soon(self._answer, self._of_store)

    async def _answer(self, gets: Turns[messages.Get]) -> None:
        async for peer, get in gets:
            is_late = self.pace.wait_s(trio.current_time()) > _MAX_LATE_S
            if is_late or self._node.waiting_bytes(peer) > _MAX_WAITING_BYTES:
                self._say(peer, busy_blob(get))
                continue
            shard = self._held(get.digest)
            if shard is None:  # of the store, or dropped since
                blob = await trio.to_thread.run_sync(answer_get, get, self._stored)
            else:
                blob = answer_get(get, _reader(shard))
            self.n_bytes += len(blob.body)
            self.pace.spent(len(blob.body), trio.current_time())
            self._say(peer, blob)

    def _say(self, peer: PeerId, blob: messages.Blob) -> None:
        try:
            self._node.send(peer, blob)
        except LocalError as error:
            logger.info("to %s: %s", short_id(peer), error)


def _inbox() -> Turns[messages.Get]:
    """Return a queue of questions; while it is full, whoever asks is told BUSY."""
    return Turns[messages.Get](max_items=_MAX_GETS, max_of_peer=_MAX_OF_PEER)


def _reader(shard: bytes) -> ReadRange:
    """Return what reads ranges of one shard in memory."""

    def read(name: str, offset: int, length: int) -> tuple[int, bytes]:
        if offset < 0:
            raise ShardMissing(f"nothing at {offset} of {name[:8]}")
        return len(shard), bytes(shard[offset : offset + length])

    return read
