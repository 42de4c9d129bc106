"""Shards handed out by the relay under /blob/: a bounded folder, by hash.

The folder holds what the operator put there, and what first askers made the relay
fetch: a shard that a lease waits for is fetched once, of the network's own holders,
and checked before a byte of it is handed on (`p2pmoe.network.blob_filling`). Whoever
knows a hash may have the bytes, as with any link.

What one address may take: 4 answers at once and, beyond a first 4 GiB, 4 MiB/s over
time; all together 48 answers at once, so that other pages stay reachable. Who asks for
more is told to come later. Files are read on threads, 256 KiB at a time.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum, auto
from typing import Final, Self

import trio

from mobile_worker.shards.errors import ShardError
from mobile_worker.shards.store import ShardStore
from relay.blob_requests import (
    BLOB_PATH,
    BlobSpan,
    blob_headers,
    blob_name,
    not_modified,
    span,
)
from relay.endpoint import is_loopback
from relay.gate import address_key
from relay.limits import Bucket
from relay.pages import PageHandler, PageRequest, PageResponse, neutral_page

__all__ = ["BlobPages", "Fill", "Filled"]


class Filled(Enum):
    """What came of bringing in a shard that the folder lacks."""

    HERE = auto()
    UNDER_WAY = auto()  # ask again in a moment
    NO = auto()


Fill = Callable[[str], Awaitable[Filled]]

_MAX_OPEN: Final = 48
_MAX_OF_ADDRESS: Final = 4
_BURST_BYTES: Final = 4 << 30
_BYTES_S: Final = 4 << 20
_MAX_BUCKETS: Final = 10_000
_CHUNK_BYTES: Final = 256 << 10
_OCTETS: Final = "application/octet-stream"


async def _no_fill(_name: str) -> Filled:
    return Filled.NO


class BlobPages:
    """Answers requests for shards of one folder."""

    def __init__(self, store: ShardStore, fill: Fill = _no_fill) -> None:
        """Hand out what `store` holds; `fill` may bring in what it lacks."""
        self._store = store
        self._fill = fill
        self._open: Counter[str] = Counter()
        self._buckets: dict[str, Bucket] = {}

    @property
    def pages(self) -> Mapping[str, PageHandler]:
        """What the relay is given."""
        return {BLOB_PATH: self.answer}

    async def answer(self, request: PageRequest) -> PageResponse:
        """Return the answer to a request below /blob/."""
        name = blob_name(request.path)
        if name is None:
            return neutral_page(404)
        address = address_key(request.remote)
        if not self._may_open(address):
            return _later(5)
        self._open[address] += 1
        try:
            answer = await self._found(request, name, address)
        except BaseException:
            self._left(address)
            raise
        if answer.chunks is None:
            self._left(address)
        return answer

    async def _found(
        self, request: PageRequest, name: str, address: str
    ) -> PageResponse:
        if not_modified(request.headers, name):
            return PageResponse(status=304, content_type=_OCTETS, keep_alive=True)
        filled = await self._bring(name)
        if filled is Filled.UNDER_WAY:
            return _later(2)
        total = await self._size(name) if filled is Filled.HERE else None
        if total is None:
            return PageResponse(status=404, keep_alive=True)
        wanted = span(request.headers, total)
        if request.method == "GET" and not self._may_take(address, wanted.n_bytes):
            return _later(60)
        return PageResponse(
            status=wanted.status,
            content_type=_OCTETS,
            headers=blob_headers(name, wanted, total),
            chunks=_Chunks(self._store, name, wanted),
            length=wanted.n_bytes,
            keep_alive=True,
            on_close=lambda: self._left(address),
        )

    async def _bring(self, name: str) -> Filled:
        if await trio.to_thread.run_sync(self._store.look, name):
            return Filled.HERE
        return await self._fill(name)

    async def _size(self, name: str) -> int | None:
        """Return the size of a shard that is right; None if its file is not."""
        try:
            return await trio.to_thread.run_sync(self._store.check, name)
        except ShardError:  # the file is removed by now
            return None

    def _may_open(self, address: str) -> bool:
        if self._open.total() >= _MAX_OPEN:
            return False
        return is_loopback(address) or self._open[address] < _MAX_OF_ADDRESS

    def _left(self, address: str) -> None:
        self._open[address] -= 1
        if self._open[address] <= 0:
            del self._open[address]

    def _may_take(self, address: str, n_bytes: int) -> bool:
        """Charge an address; one that has taken too much waits until it has paid."""
        now = trio.current_time()
        bucket = self._buckets.get(address)
        if bucket is None:
            if len(self._buckets) >= _MAX_BUCKETS:
                full = [a for a, b in self._buckets.items() if b.is_full(now)]
                for each in full or [next(iter(self._buckets))]:
                    del self._buckets[each]
            bucket = self._buckets[address] = Bucket(_BYTES_S, _BURST_BYTES, now)
        if bucket.take(0, now) > 0:
            return False
        bucket.take(n_bytes, now)
        return True


def _later(retry_s: int) -> PageResponse:
    return PageResponse(
        status=503, headers={"Retry-After": str(retry_s)}, keep_alive=True
    )


class _Chunks:
    """The bytes of one answer; an iterator that may be left at any point."""

    def __init__(self, store: ShardStore, name: str, wanted: BlobSpan) -> None:
        self._store = store
        self._name = name
        self._at, self._end = wanted.first, wanted.first + wanted.n_bytes

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._at >= self._end:
            raise StopAsyncIteration
        length = min(_CHUNK_BYTES, self._end - self._at)
        try:
            _, chunk = await trio.to_thread.run_sync(
                self._store.read_range, self._name, self._at, length
            )
        except ShardError as error:
            raise trio.BrokenResourceError("the shard is gone") from error
        if not chunk:
            raise trio.BrokenResourceError("the shard is cut short")
        self._at += len(chunk)
        return chunk
