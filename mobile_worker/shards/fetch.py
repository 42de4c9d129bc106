"""Fetch blobs by hash from a source: several pieces in flight, resumed, verified.

A `PieceSource` is anything that reads a range of a blob named by its SHA-256: a peer
that answers GET with BLOB (`mobile_worker.shards.desk`), an HTTP server with ranges.
What it sends is trusted for nothing: length and hash are checked here, bytes reach the
store's part file as they come, so that a fetch cut off at any point goes on there.

A piece without an answer within its time is asked for again; after `max_failures` in a
row the fetch ends with ShardUnavailable, and calling again resumes it.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import trio

from mobile_worker.errors import WorkerError
from mobile_worker.shards.errors import ShardCorrupt, ShardUnavailable
from mobile_worker.shards.store import Incoming, ShardStore
from mobile_worker.shards.transfer import PIECE_BYTES, Transfer

__all__ = [
    "FetchSettings",
    "Piece",
    "PieceSource",
    "fetch_blob",
    "fetch_shard",
    "fill_part",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A range of a blob, and how long the whole blob is."""

    total: int
    body: bytes


class PieceSource(Protocol):
    """Where pieces come from."""

    async def read(self, digest: bytes, offset: int, length: int) -> Piece:
        """Return `length` bytes from `offset` of the blob, fewer at its end.

        Waits for as long as its caller lets it.

        Raises:
            ShardUnavailable: the source does not have the blob.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """How hard to try."""

    window: int = 8  # pieces in flight
    piece_timeout_s: float = 10.0
    max_failures: int = 4  # pieces in a row without an answer


async def fetch_shard(
    store: ShardStore,
    source: PieceSource,
    digest: bytes,
    n_bytes: int,
    *,
    settings: FetchSettings | None = None,
) -> None:
    """Bring a shard into the store, resuming what an earlier try left.

    Args:
        store: where it goes; does nothing if it is there already.
        source: where it comes from.
        digest: SHA-256 of the shard, 32 bytes.
        n_bytes: its size, from the manifest.
        settings: timeouts and tries.

    Raises:
        ShardUnavailable: the source does not answer, or not with this shard.
        ShardCorrupt: all bytes came and are not this shard; the part is removed.
        StoreFull, StoreUnusable: the store's folder or budget.
    """
    name = digest.hex()
    if store.has(name):
        return
    part = await trio.to_thread.run_sync(store.begin, name, n_bytes)
    try:
        await fill_part(part, source, settings=settings)
        await trio.to_thread.run_sync(part.finish)
    finally:
        part.abandon()


async def fill_part(
    part: Incoming,
    source: PieceSource,
    *,
    settings: FetchSettings | None = None,
) -> None:
    """Write what a part lacks, as far as its source gives it.

    Args:
        part: goes on where it ends; it is neither finished nor abandoned here.
        source: where the bytes come from.
        settings: timeouts and tries.

    Raises:
        ShardUnavailable: the source does not answer, or not with this shard.
        StoreFull, StoreUnusable: the store's folder.
    """
    settings = settings or FetchSettings()
    transfer = Transfer(part.n_bytes, position=part.position, window=settings.window)

    def write(pieces: list[bytes]) -> None:
        for piece in pieces:
            part.append(piece)

    await _run(transfer, source, bytes.fromhex(part.digest), write, settings)


async def fetch_blob(
    source: PieceSource,
    digest: bytes,
    *,
    max_bytes: int,
    settings: FetchSettings | None = None,
) -> bytes:
    """Return a blob of unknown size, such as a manifest, after checking its hash.

    Raises:
        ShardUnavailable: the source does not answer, or offers more than `max_bytes`.
        ShardCorrupt: the bytes are not those the digest names.
    """
    settings = settings or FetchSettings()
    first = await _read(source, digest, 0, PIECE_BYTES, settings)
    if not 0 < first.total <= max_bytes:
        raise ShardUnavailable(f"blob {digest.hex()[:8]} has {first.total} bytes")
    pieces: list[bytes] = []
    transfer = Transfer(first.total, window=settings.window)
    offset = transfer.take()
    if offset is not None:
        pieces.extend(transfer.arrived(offset, first.total, first.body))
    await _run(transfer, source, digest, pieces.extend, settings)
    body = b"".join(pieces)
    if hashlib.sha256(body).digest() != digest:
        raise ShardCorrupt(f"blob {digest.hex()[:8]} came as other bytes")
    return body


async def _run(
    transfer: Transfer,
    source: PieceSource,
    digest: bytes,
    write: Callable[[list[bytes]], None],
    settings: FetchSettings,
) -> None:
    """Keep up to a window of reads going until every piece has been written."""
    failures = 0
    failed: list[WorkerError] = []
    moved = trio.Event()

    async def ask(offset: int) -> None:
        nonlocal failures
        with trio.move_on_after(settings.piece_timeout_s) as scope:
            try:
                piece = await source.read(digest, offset, transfer.length_at(offset))
                write(transfer.arrived(offset, piece.total, piece.body))
                failures = 0
            except WorkerError as error:
                failed.append(error)
        if scope.cancelled_caught:
            failures += 1
            transfer.lost(offset)
        moved.set()

    async with trio.open_nursery() as nursery:
        while not (transfer.done or failed or failures >= settings.max_failures):
            offset = transfer.take()
            if offset is None:
                await moved.wait()
                moved = trio.Event()
            else:
                nursery.start_soon(ask, offset)
        nursery.cancel_scope.cancel()
    if failed:
        raise failed[0]
    if not transfer.done:
        raise ShardUnavailable(f"no answer for shard {digest.hex()[:8]}")


async def _read(
    source: PieceSource, digest: bytes, offset: int, length: int, how: FetchSettings
) -> Piece:
    for _ in range(how.max_failures):
        with trio.move_on_after(how.piece_timeout_s):
            return await source.read(digest, offset, length)
    raise ShardUnavailable(f"no answer for blob {digest.hex()[:8]}")
