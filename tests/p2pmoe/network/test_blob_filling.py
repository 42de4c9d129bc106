"""The relay's folder is filled by what leases wait for: once each, checked, bounded."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from mobile_worker.messages.blobs import Get
from mobile_worker.shards.desk import BlobDesk, answer_get
from mobile_worker.shards.errors import ShardMissing
from mobile_worker.shards.store import ShardStore
from p2pmoe.market.shard_holders import Sought
from p2pmoe.network.blob_filling import BlobFilling, open_blobs
from p2pmoe.network.blobs import Filled
from relay.keys import PeerId
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test

BODY = hashlib.shake_256(b"a shard").digest(200_000)
NAME = hashlib.sha256(BODY).hexdigest()
LIAR, HONEST = PeerId(b"l" * 32), PeerId(b"h" * 32)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


class World:
    """Peers that answer GET at once, and what the market says of who has what."""

    def __init__(self, folder: Path, max_bytes: int = 1 << 20) -> None:
        self.store = ShardStore(folder, max_bytes=max_bytes)
        self.filling = BlobFilling(self.store)
        self.desk = BlobDesk(self.send)
        self.peers: tuple[PeerId, ...] = (HONEST,)
        self.sought: list[bytes] = []
        self.n_gets = 0
        self.is_silent = False

    def seek(self, digest: bytes) -> Sought | None:
        self.sought.append(digest)
        if digest.hex() != NAME:
            return None
        return Sought(n_bytes=len(BODY), peers=self.peers)

    def send(self, peer: PeerId, get: Get) -> None:
        self.n_gets += 1
        if not self.is_silent:
            body = BODY if peer == HONEST else bytes(len(BODY))

            def read(name: str, offset: int, length: int) -> tuple[int, bytes]:
                if name != NAME:
                    raise ShardMissing(name)
                return len(body), body[offset : offset + length]

            self.desk.arrived(peer, answer_get(get, read))


@asynccontextmanager
async def running(world: World) -> AsyncIterator[None]:
    world.filling.attach(world.seek, world.desk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(world.filling.run)
        yield
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_many_who_ask_at_once_cost_one_fetch(tmp_path: Path) -> None:
    world = World(tmp_path)
    filled: list[Filled] = []

    async def ask() -> None:
        filled.append(await world.filling.fill(NAME))

    async with running(world):
        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(ask)
        assert filled == [Filled.HERE] * 10
        assert world.store.read(NAME) == BODY
        assert len(world.sought) == 1
        assert world.n_gets == 13  # 200,000 bytes in pieces of 16 KiB


@trio_test(autojump=True)
async def test_b39_what_a_peer_makes_up_is_had_from_the_next(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.peers = (LIAR, HONEST)
    async with running(world):
        assert await world.filling.fill(NAME) is Filled.HERE
        assert world.store.read(NAME) == BODY


@trio_test(autojump=True)
async def test_what_no_lease_waits_for_is_looked_up_once_in_a_while(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)
    async with running(world):
        for _ in range(50):
            assert await world.filling.fill("0" * 64) is Filled.NO
        assert len(world.sought) == 1
        await trio.sleep(6)
        await world.filling.fill("0" * 64)
        assert len(world.sought) == 2
    for number in range(5000):
        await world.filling.fill(number.to_bytes(32, "big").hex())
    assert len(world.filling._misses) == 4096


@trio_test(autojump=True)
async def test_who_asks_waits_a_little_and_then_comes_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.is_silent, world.peers = True, (HONEST,) * 3
    async with running(world):
        started = trio.current_time()
        assert await world.filling.fill(NAME) is Filled.UNDER_WAY
        assert trio.current_time() - started == pytest.approx(2)
        await trio.sleep(60)
        world.is_silent = False
        assert await world.filling.fill(NAME) is Filled.HERE


@trio_test(autojump=True)
async def test_what_has_no_room_is_not_fetched(tmp_path: Path) -> None:
    world = World(tmp_path, max_bytes=len(BODY) - 1)
    async with running(world):
        assert await world.filling.fill(NAME) is Filled.NO
        assert world.n_gets == 0


@trio_test(autojump=True)
async def test_a_long_queue_asks_to_come_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.filling.attach(lambda _: Sought(n_bytes=1, peers=()), world.desk)
    async with trio.open_nursery() as nursery:
        for number in range(64):
            name = number.to_bytes(32, "big").hex()
            nursery.start_soon(world.filling.fill, name)
        await trio.testing.wait_all_tasks_blocked()
        assert await world.filling.fill("f" * 64) is Filled.UNDER_WAY
        nursery.cancel_scope.cancel()


@trio_test
async def test_without_a_market_the_folder_is_what_there_is(tmp_path: Path) -> None:
    assert await World(tmp_path).filling.fill(NAME) is Filled.NO
    assert open_blobs(tmp_path / "none", 0).pages == {}
    assert not (tmp_path / "none").exists()
    blobs = open_blobs(tmp_path / "some", 1 << 20)
    assert list(blobs.pages) == ["/blob/"]
    assert blobs.filling is not None
