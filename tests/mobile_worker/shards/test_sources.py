"""Several sources in turn: one part goes on from each to the next; liars go last."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest

from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.errors import ShardCorrupt, ShardUnavailable, StoreFull
from mobile_worker.shards.http_source import HttpSource
from mobile_worker.shards.manifest import ManifestExpert
from mobile_worker.shards.model_files import ModelFilePart
from mobile_worker.shards.sources import Distrust, FilesSource, fetch_from_sources
from mobile_worker.shards.store import Incoming, ShardStore
from tests.support.inline_threads import inline_threads
from tests.support.range_server import RangeServer
from tests.support.trio_test import trio_test

BODY = hashlib.shake_256(b"a shard").digest(100_000)
EXPERT = ManifestExpert(
    expert=ExpertId(1, 2),
    layout=0,
    digest=hashlib.sha256(BODY).digest(),
    n_bytes=len(BODY),
    ranges=((500, 60_000), (70_000, 40_000)),
)
FILE = bytes(500) + BODY[:60_000] + bytes(9_500) + BODY[60_000:] + bytes(10)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


class Giver:
    """Gives up to `gives` bytes of `body`; notes where it was asked to begin."""

    def __init__(self, name: str, body: bytes = BODY, gives: int = 10**9) -> None:
        self.name = name
        self.body = body
        self.gives = gives
        self.asked: list[int] = []
        self.blamed = 0

    async def fill(
        self, part: Incoming, _expert: ManifestExpert, came: Callable[[int], None]
    ) -> None:
        self.asked.append(part.position)
        given = self.body[part.position :][: self.gives]
        part.append(given)
        came(len(given))
        if part.position < part.n_bytes:
            raise ShardUnavailable(f"{self.name} has no more")

    def blame(self) -> None:
        self.blamed += 1


def opened(folder: Path) -> ShardStore:
    return ShardStore(folder, max_bytes=1 << 20)


@trio_test
async def test_each_source_goes_on_where_the_one_before_ended(tmp_path: Path) -> None:
    store, came = opened(tmp_path), []
    first, none, last = Giver("a", gives=30_000), Giver("b", gives=0), Giver("c")
    await fetch_from_sources(
        store, EXPERT, [first, none, last], Distrust(), came=came.append
    )
    assert store.read(EXPERT.digest.hex()) == BODY
    assert (first.asked, none.asked, last.asked) == ([0], [30_000], [30_000])
    assert sum(came) == len(BODY)
    await fetch_from_sources(store, EXPERT, [first], Distrust())  # it is here
    assert first.asked == [0]


@trio_test
async def test_what_nobody_completes_is_resumed_by_the_next_process(
    tmp_path: Path,
) -> None:
    sources = [Giver("a", gives=30_000), Giver("b", gives=20_000)]
    with pytest.raises(ShardUnavailable, match="a has no more; b has no more"):
        await fetch_from_sources(opened(tmp_path), EXPERT, sources, Distrust())
    last = Giver("c")
    again = opened(tmp_path)
    await fetch_from_sources(again, EXPERT, [last], Distrust())
    assert last.asked == [50_000]
    assert again.read(EXPERT.digest.hex()) == BODY


@trio_test
async def test_whoever_had_a_part_in_wrong_bytes_is_asked_last(tmp_path: Path) -> None:
    store, distrust = opened(tmp_path), Distrust()
    honest = Giver("honest", gives=30_000)
    liar, other = Giver("liar", bytes(len(BODY))), Giver("other")
    sources = [honest, liar, other]
    with pytest.raises(ShardCorrupt):
        await fetch_from_sources(store, EXPERT, sources, distrust)
    assert not store.used_bytes
    assert liar.blamed == honest.blamed == 0  # nobody knows which of them it was
    await fetch_from_sources(store, EXPERT, sources, distrust)
    assert other.asked == [0]
    assert store.read(EXPERT.digest.hex()) == BODY


@trio_test
async def test_whoever_gave_all_of_it_alone_knows_that_it_lied(tmp_path: Path) -> None:
    liar = Giver("liar", bytes(len(BODY)))
    with pytest.raises(ShardCorrupt):
        await fetch_from_sources(opened(tmp_path), EXPERT, [liar], Distrust())
    assert liar.blamed == 1


@trio_test
async def test_a_part_of_unknown_origin_blames_nobody_for_good(tmp_path: Path) -> None:
    store = opened(tmp_path)
    part = store.begin(EXPERT.digest.hex(), len(BODY))
    part.append(bytes(10_000))
    part.abandon()
    honest = Giver("honest")
    with pytest.raises(ShardCorrupt):
        await fetch_from_sources(store, EXPERT, [honest], Distrust())
    assert honest.blamed == 0
    await fetch_from_sources(store, EXPERT, [honest], Distrust())
    assert store.read(EXPERT.digest.hex()) == BODY


@trio_test
async def test_b15_what_has_no_room_asks_nobody(tmp_path: Path) -> None:
    giver, store = Giver("a"), ShardStore(tmp_path, max_bytes=len(BODY) - 1)
    with pytest.raises(StoreFull):
        await fetch_from_sources(store, EXPERT, [giver], Distrust())
    assert giver.asked == []


def test_distrust_is_of_one_shard_and_bounded() -> None:
    distrust, a, b = Distrust(), Giver("a"), Giver("b")
    distrust.blame(bytes(32), [a])
    assert distrust.order(bytes(32), [a, b]) == [b, a]
    assert distrust.order(b"x" * 32, [a, b]) == [a, b]
    for n in range(5000):
        distrust.blame(n.to_bytes(32, "big"), [a])
    assert distrust.order(bytes(32), [a, b]) == [a, b]  # forgotten


A, B = "https://a.example/m", "https://b.example/m"


def files_of(server: RangeServer) -> FilesSource:
    part = ModelFilePart(n_bytes=len(FILE), urls=(A, B))
    return FilesSource(HttpSource(server.open_client(), [part]))


@trio_test(autojump=True)
async def test_of_the_models_files_the_mirror_is_asked_after_a_lie(
    tmp_path: Path,
) -> None:
    def lie(host: str, _name: str, body: bytes) -> bytes:
        return body[:-1] + b"!" if host == "a.example" else body

    store, files = opened(tmp_path), files_of(RangeServer({"m": FILE}, bend=lie))
    with pytest.raises(ShardCorrupt):
        await fetch_from_sources(store, EXPERT, [files], Distrust())
    await fetch_from_sources(store, EXPERT, [files], Distrust())
    assert store.read(EXPERT.digest.hex()) == BODY


@trio_test(autojump=True)
async def test_a_peer_goes_on_where_the_models_files_broke_off(tmp_path: Path) -> None:
    def cut(_host: str, _name: str, body: bytes) -> bytes | None:
        if len(body) == 60_000:
            return body
        return body[:10_000] if len(body) == 40_000 else None

    store, peer = opened(tmp_path), Giver("peer")
    files = files_of(RangeServer({"m": FILE}, bend=cut))
    await fetch_from_sources(store, EXPERT, [files, peer], Distrust())
    assert store.read(EXPERT.digest.hex()) == BODY
    assert peer.asked == [70_000]
