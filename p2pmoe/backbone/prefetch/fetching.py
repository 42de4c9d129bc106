"""Asks workers for shards by hash, many at once, and puts their pieces together.

The trio side's state machine, without awaits: every method runs on the trio thread,
changes state and calls `send`, which only queues. Rules:

- questions of a work leave at once, so that they cost one round trip together, as far
  as what is asked of a worker, and by way of a relay of all, stays below what the relay
  keeps for us (`Limits`); the rest leaves as answers come;
- a piece counts only from the worker that was asked, for a question that is open, with
  the shard's own hash, place and length; whatever else comes is dropped and counted;
- a worker that answers too little gets the rest asked once more, as long as an answer
  has at least `PIECE_BYTES`; one that says another size, or sends more than was asked,
  is WRONG and its other pieces of this shard are forgotten;
- memory is that of the shards asked for: nothing else a worker sends is kept;
- each wanted expert gets one reply; after `stop` none.
"""

import logging
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from mobile_worker.errors import LocalError
from mobile_worker.expert_id import ExpertId
from mobile_worker.large_pages import weight_room
from mobile_worker.messages import Message
from mobile_worker.messages.blobs import Blob, BlobError, Get
from mobile_worker.shards.manifest import ManifestExpert
from mobile_worker.shards.transfer import PIECE_BYTES
from p2pmoe.backbone.prefetch.fetch_work import (
    Came,
    FetchWork,
    Lack,
    Lacking,
    Wanted,
)
from relay.keys import PeerId

__all__ = ["QUESTION_BYTES", "Fetcher", "FetcherParts", "Limits"]

log = logging.getLogger("p2pmoe.backbone")

QUESTION_BYTES: Final = 1 << 17  # of one GET: what a lost packet costs


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bytes that may be asked for and not be here yet.

    A relay keeps 4 MiB for a backbone, of one peer a quarter (relay/queues.py).
    """

    direct: int = 8 << 20  # of one worker
    relayed: int = 1 << 20  # of one worker
    all_relayed: int = 3 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherParts:
    """What a fetcher works with; `send` queues a message and never blocks.

    `is_relayed` tells whether a worker is reached by way of a relay.
    """

    send: Callable[[PeerId, Message], None]
    entries: Mapping[ExpertId, ManifestExpert]
    clock: Callable[[], float]
    random: Random
    is_relayed: Callable[[PeerId], bool] = lambda _: False
    limits: Limits = field(default_factory=Limits)


@dataclass(slots=True, kw_only=True, eq=False)
class _Shard:
    """A shard on its way."""

    work: FetchWork
    wanted: Wanted
    entry: ManifestExpert
    room: memoryview
    n_left: int
    requests: set[int] = field(default_factory=set)
    is_over: bool = False


@dataclass(slots=True, eq=False)
class _Line:
    """What is asked of one worker, and what is yet to be asked."""

    is_relayed: bool
    n_bytes: int = 0
    waiting: deque[tuple[_Shard, int, int]] = field(default_factory=deque)


class Fetcher:
    """All shards of this backbone that are on their way."""

    def __init__(self, parts: FetcherParts) -> None:
        """Begin with nothing under way."""
        self._parts = parts
        self._open: dict[int, tuple[_Shard, Get]] = {}
        self._lines: dict[PeerId, _Line] = {}
        self._last_request = parts.random.getrandbits(48) << 8
        self.n_dropped = 0  # blobs that nobody waits for

    def start(self, work: FetchWork) -> None:
        """Ask for everything."""
        for wanted in work.wanted:
            entry = self._parts.entries.get(wanted.expert)
            if entry is None:
                work.replies.put(Lacking(wanted=wanted, why=Lack.UNKNOWN))
                continue
            shard = _Shard(
                work=work,
                wanted=wanted,
                entry=entry,
                room=weight_room(entry.n_bytes),
                n_left=entry.n_bytes,
            )
            line = self._line(wanted.peer)
            for offset in range(0, entry.n_bytes, QUESTION_BYTES):
                length = min(QUESTION_BYTES, entry.n_bytes - offset)
                line.waiting.append((shard, offset, length))
        self._ask_more()

    def stop(self, work: FetchWork) -> None:
        """Forget a work; it gets no more replies."""
        for shard in self._shards(lambda shard: shard.work is work):
            self._forget(shard)
        self._ask_more()

    def on_blob(self, peer: PeerId, blob: Blob) -> None:
        """Take a BLOB in, if it is wanted and right."""
        shard, get = self._open.get(blob.request, (None, None))
        if (
            shard is None
            or get is None
            or shard.wanted.peer != peer
            or (blob.digest, blob.offset) != (get.digest, get.offset)
        ):
            self.n_dropped += 1
            return
        if blob.error != BlobError.OK:
            is_busy = blob.error == BlobError.BUSY
            self._fail(shard, Lack.BUSY if is_busy else Lack.UNKNOWN)
            self._ask_more()
            return
        n = len(blob.body)
        least = min(PIECE_BYTES, get.length)
        if blob.total != shard.entry.n_bytes or not least <= n <= get.length:
            self._fail(shard, Lack.WRONG)
            self._ask_more()
            return
        self._close(shard, blob.request)
        shard.room[get.offset : get.offset + n] = blob.body
        shard.n_left -= n
        if n < get.length:
            line = self._line(peer)
            line.waiting.appendleft((shard, get.offset + n, get.length - n))
        elif not shard.n_left:
            came = Came(
                wanted=shard.wanted,
                shard=shard.room.toreadonly(),
                at=self._parts.clock(),
            )
            shard.work.replies.put(came)
        self._ask_more()

    def on_lost(self, peer: PeerId) -> None:
        """Give up all that a worker was asked for; it or its link is gone."""
        for shard in self._shards(lambda shard: shard.wanted.peer == peer):
            self._fail(shard, Lack.LOST)
        self._ask_more()

    @property
    def n_open(self) -> int:
        """Questions without an answer."""
        return len(self._open)

    def _shards(self, belongs: Callable[[_Shard], bool]) -> list[_Shard]:
        """Return shards under way, each once, those asked for first."""
        asked = (shard for shard, _ in self._open.values())
        waiting = (one[0] for line in self._lines.values() for one in line.waiting)
        every = dict.fromkeys((*asked, *waiting))
        return [shard for shard in every if not shard.is_over and belongs(shard)]

    def _line(self, peer: PeerId) -> _Line:
        line = self._lines.get(peer)
        if line is None:
            line = self._lines[peer] = _Line(self._parts.is_relayed(peer))
        return line

    def _ask_more(self) -> None:
        """Ask for what there is room for, of each worker in turn."""
        limits = self._parts.limits
        relayed = sum(line.n_bytes for line in self._lines.values() if line.is_relayed)
        for peer, line in list(self._lines.items()):
            most = limits.relayed if line.is_relayed else limits.direct
            while line.waiting:
                shard, offset, length = line.waiting[0]
                if not shard.is_over:
                    is_full = line.n_bytes > 0 and line.n_bytes + length > most
                    if line.is_relayed and relayed > 0:
                        is_full = is_full or relayed + length > limits.all_relayed
                    if is_full:
                        break
                line.waiting.popleft()
                if not shard.is_over:
                    line.n_bytes += length
                    relayed += length * line.is_relayed
                    self._ask(shard, offset, length)
            if not line.waiting and not line.n_bytes:
                del self._lines[peer]

    def _ask(self, shard: _Shard, offset: int, length: int) -> None:
        self._last_request += 1
        get = Get(
            request=self._last_request,
            digest=shard.entry.digest,
            offset=offset,
            length=length,
        )
        self._open[get.request] = (shard, get)
        shard.requests.add(get.request)
        try:
            self._parts.send(shard.wanted.peer, get)
        except LocalError as error:
            log.info("to worker %s: %s", shard.wanted.peer.hex()[:8], error)
            self._fail(shard, Lack.LOST)

    def _fail(self, shard: _Shard, why: Lack) -> None:
        self._forget(shard)
        shard.work.replies.put(Lacking(wanted=shard.wanted, why=why))

    def _forget(self, shard: _Shard) -> None:
        shard.is_over = True
        for request in tuple(shard.requests):
            self._close(shard, request)

    def _close(self, shard: _Shard, request: int) -> None:
        _, get = self._open.pop(request)
        shard.requests.discard(request)
        line = self._lines.get(shard.wanted.peer)
        if line is not None:
            line.n_bytes = max(0, line.n_bytes - get.length)
