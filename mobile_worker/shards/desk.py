"""GET and BLOB: asking a peer for pieces of shards, and answering such questions.

`BlobDesk` turns a peer into a `PieceSource`: it numbers the questions and pairs each
BLOB with the question it answers. A BLOB that answers none, comes from another peer or
is about another range is dropped. `answer_get` is the other direction, a function of
a GET and of what reads ranges; its errors are codes, never local texts (faults B06).
"""

import itertools
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from secrets import randbits

import trio

from mobile_worker.errors import MessageError, RecordError, SendQueueFull
from mobile_worker.messages.blobs import (
    Blob,
    BlobError,
    Get,
    pack_holders,
    unpack_holders,
)
from mobile_worker.messages.codec import encode_message, parse_message
from mobile_worker.messages.market import Placement
from mobile_worker.session.records import PeerRecord, parse_record
from mobile_worker.shards.errors import ShardError, SourceRefused
from mobile_worker.shards.fetch import Piece
from mobile_worker.shards.transfer import MAX_ANSWER_BYTES
from relay.keys import PeerId

__all__ = [
    "BlobDesk",
    "PeerSource",
    "answer_get",
    "busy_blob",
    "holders_blob",
    "placement_blob",
]

_FULL_RETRY_S = 0.05
_BUSY_RETRY_S = 0.5


def answer_get(
    get: Get, read_range: Callable[[str, int, int], tuple[int, bytes]]
) -> Blob:
    """Return the BLOB that answers a GET.

    Args:
        get: the question; at most MAX_ANSWER_BYTES of it are answered.
        read_range: gives (total size, bytes) of a blob named in hex; raises ShardError
            if it is not here.
    """
    length = min(get.length, MAX_ANSWER_BYTES)
    error, total, body = BlobError.OK, 0, b""
    try:
        total, body = read_range(get.digest.hex(), get.offset, length)
        if not body:
            error = BlobError.RANGE
    except ShardError:
        error = BlobError.UNKNOWN
    return _blob(get, error, total, body)


def holders_blob(get: Get, records: Iterable[bytes]) -> Blob:
    """Return the BLOB that names holders, by their encoded records."""
    return _blob(get, BlobError.HOLDERS, 0, pack_holders(records))


def placement_blob(get: Get, placement: Placement) -> Blob:
    """Return the BLOB that carries a placement to whoever asked for it."""
    return _blob(get, BlobError.PLACEMENT, 0, encode_message(placement))


def busy_blob(get: Get) -> Blob:
    """Return the BLOB that asks whoever sent this GET to try again."""
    return _blob(get, BlobError.BUSY, 0, b"")


def _blob(get: Get, error: BlobError, total: int, body: bytes) -> Blob:
    return Blob(
        request=get.request,
        digest=get.digest,
        offset=get.offset,
        total=total,
        error=error,
        body=body,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    peer: PeerId
    get: Get
    answer: trio.MemorySendChannel[Blob]  # room for one; a second one is dropped


class BlobDesk:
    """Questions under way, by request number."""

    def __init__(self, send: Callable[[PeerId, Get], None]) -> None:
        """Send questions through `send`, which may raise SendQueueFull."""
        self._send = send
        self._requests = itertools.count(randbits(48))
        self._open: dict[int, _Question] = {}

    def source(self, peer: PeerId) -> "PeerSource":
        """Return `peer` as a source of pieces."""
        return PeerSource(self, peer)

    def arrived(self, peer: PeerId, blob: Blob) -> None:
        """Hand a BLOB to whoever asked for exactly it; drop any other."""
        question = self._open.get(blob.request)
        if question is None or question.peer != peer:
            return
        if (blob.digest, blob.offset) != (question.get.digest, question.get.offset):
            return
        with suppress(trio.WouldBlock, trio.BrokenResourceError):
            question.answer.send_nowait(blob)

    async def ask(self, peer: PeerId, digest: bytes, offset: int, length: int) -> Piece:
        """Ask one peer for one range and wait for its answer.

        Raises:
            SourceRefused: the peer says that it has no such bytes.
        """
        while True:
            blob = await self._answer(peer, digest, offset, length)
            if blob.error == BlobError.OK:
                return Piece(total=blob.total, body=blob.body)
            if blob.error != BlobError.BUSY:
                raise SourceRefused(
                    f"peer {peer.hex()[:8]} has no {digest.hex()[:8]} at {offset}"
                )
            await trio.sleep(_BUSY_RETRY_S)

    async def holders(self, peer: PeerId, digest: bytes) -> list[PeerRecord]:
        """Ask one peer who else has a shard; those whose records verify."""
        blob = await self._answer(peer, digest, 0, 0)
        if blob.error != BlobError.HOLDERS:
            return []
        try:
            return [parse_record(raw) for raw in unpack_holders(blob.body)]
        except (MessageError, RecordError):
            return []

    async def placement(self, peer: PeerId, manifest_hash: bytes) -> Placement | None:
        """Ask a backbone for its last placement of a model; None if it gives none."""
        blob = await self._answer(peer, manifest_hash, 0, 0)
        if blob.error != BlobError.PLACEMENT:
            return None
        try:
            message = parse_message(blob.body)
        except MessageError:
            return None
        if not isinstance(message, Placement):
            return None
        return message if message.manifest_hash == manifest_hash else None

    async def _answer(
        self, peer: PeerId, digest: bytes, offset: int, length: int
    ) -> Blob:
        request = next(self._requests)
        get = Get(request=request, digest=digest, offset=offset, length=length)
        send, receive = trio.open_memory_channel[Blob](1)
        self._open[request] = _Question(peer=peer, get=get, answer=send)
        try:
            await self._submit(peer, get)
            return await receive.receive()
        finally:
            del self._open[request]

    async def _submit(self, peer: PeerId, get: Get) -> None:
        while True:
            try:
                self._send(peer, get)
            except SendQueueFull:
                await trio.sleep(_FULL_RETRY_S)
            else:
                return


@dataclass(frozen=True, slots=True)
class PeerSource:
    """One peer as a `PieceSource`."""

    desk: BlobDesk
    peer: PeerId

    async def read(self, digest: bytes, offset: int, length: int) -> Piece:
        """Return bytes from `offset`; SourceRefused if the peer lacks them."""
        return await self.desk.ask(self.peer, digest, offset, length)
