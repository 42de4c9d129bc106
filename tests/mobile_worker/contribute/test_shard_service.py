"""Pieces of shards: from memory without a thread, from the store, within bounds."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
import trio

from mobile_worker import messages
from mobile_worker.contribute import shard_service
from mobile_worker.contribute.shard_service import ShardService
from mobile_worker.errors import SendQueueFull
from mobile_worker.messages.blobs import BlobError
from mobile_worker.shards.errors import ShardMissing
from mobile_worker.shards.transfer import MAX_ANSWER_BYTES
from relay.keys import PeerId
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test

PEER = PeerId(b"p" * 32)
HELD = bytes(range(256)) * 2000
STORED = b"stored" * 100
HELD_NAME, STORED_NAME = b"h" * 32, b"s" * 32


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


@dataclass
class _Node:
    """Keeps what is sent; `waiting` is what it says waits for everyone."""

    waiting: int = 0
    is_full: bool = False
    sent: list[tuple[PeerId, messages.Blob]] = field(default_factory=list)

    def send(self, peer: PeerId, message: messages.Blob) -> None:
        if self.is_full:
            raise SendQueueFull("full")
        self.sent.append((peer, message))

    def waiting_bytes(self, peer: PeerId) -> int:
        return self.waiting


def get(digest: bytes, offset: int = 0, length: int = 1 << 30) -> messages.Get:
    return messages.Get(request=7, digest=digest, offset=offset, length=length)


def stored(name: str, offset: int, length: int) -> tuple[int, bytes]:
    if name != STORED_NAME.hex():
        raise ShardMissing(name)
    return len(STORED), STORED[offset : offset + length]


@asynccontextmanager
async def running(node: _Node) -> AsyncIterator[ShardService]:
    held = {HELD_NAME: HELD}.get
    service = ShardService(node, held=held, stored=stored)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(service.run)
        yield service
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()


@trio_test
async def test_it_answers_from_memory_and_from_the_store() -> None:
    node = _Node()
    async with running(node) as service:
        service.asked(PEER, get(HELD_NAME, 3, 5))
        service.asked(PEER, get(HELD_NAME))
        service.asked(PEER, get(STORED_NAME, 6, 6))
    assert {peer for peer, _ in node.sent} == {PEER}
    blobs = [blob for _, blob in node.sent]
    piece, most = [blob for blob in blobs if blob.digest == HELD_NAME]
    (from_store,) = [blob for blob in blobs if blob.digest == STORED_NAME]
    assert piece.body == HELD[3:8]
    assert piece.total == len(HELD)
    assert most.body == HELD[:MAX_ANSWER_BYTES]
    assert from_store.body == b"stored"
    assert service.n_bytes == 5 + MAX_ANSWER_BYTES + 6


@trio_test
async def test_what_it_has_not_and_no_range_are_codes() -> None:
    node = _Node()
    async with running(node) as service:
        service.asked(PEER, get(b"?" * 32))
        service.asked(PEER, get(HELD_NAME, len(HELD)))
        service.asked(PEER, get(HELD_NAME, 0, 0))
    errors = sorted(blob.error for _, blob in node.sent)  # the store may come later
    assert errors == [BlobError.UNKNOWN, BlobError.RANGE, BlobError.RANGE]
    assert not any(blob.body for _, blob in node.sent)


@trio_test
async def test_nobody_fills_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_service, "_MAX_OF_PEER", 2)
    node = _Node()
    async with running(node) as service:
        for _ in range(3):
            service.asked(PEER, get(HELD_NAME))
    assert [blob.error for _, blob in node.sent] == [BlobError.BUSY, 0, 0]
    node = _Node(waiting=1 << 30)
    async with running(node) as service:
        service.asked(PEER, get(HELD_NAME))
    assert [blob.error for _, blob in node.sent] == [BlobError.BUSY]


@trio_test
async def test_what_is_in_memory_waits_for_no_question_about_what_is_not() -> None:
    node, other = _Node(), PeerId(b"o" * 32)
    async with running(node) as service:
        for n in range(400):
            service.asked(other, get(STORED_NAME if n % 2 else b"?" * 32))
        service.asked(PEER, get(HELD_NAME))
    place = [peer for peer, _ in node.sent].index(PEER)
    assert len(node.sent) == 401
    assert place < 20


@trio_test
async def test_a_peer_that_takes_nothing_ends_nothing() -> None:
    node = _Node(is_full=True)
    async with running(node) as service:
        service.asked(PEER, get(HELD_NAME))
        await trio.testing.wait_all_tasks_blocked()
        node.is_full = False
        service.asked(PEER, get(HELD_NAME))
    assert len(node.sent) == 1


@trio_test(autojump=True)
async def test_a_pause_and_a_rate_behind_say_busy() -> None:
    node = _Node()
    async with running(node) as service:
        service.is_paused = True
        service.asked(PEER, get(HELD_NAME))
        service.is_paused = False
        service.pace.allow(1.0)
        service.pace.spent(10, trio.current_time())
        service.asked(PEER, get(HELD_NAME))
        await trio.sleep(10)
        service.asked(PEER, get(HELD_NAME, 0, 5))
    errors = [blob.error for _, blob in node.sent]
    assert errors == [BlobError.BUSY, BlobError.BUSY, BlobError.OK]
