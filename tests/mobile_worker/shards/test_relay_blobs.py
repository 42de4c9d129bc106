"""Shards from a relay's /blob/: resumed, judged, and left alone when it has none."""

import hashlib
from pathlib import Path
from typing import Self

import pytest
import trio

from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.manifest import ManifestExpert
from mobile_worker.shards.relay_blobs import RelayBlobs, RelaySource
from mobile_worker.shards.sources import Distrust, fetch_from_sources
from mobile_worker.shards.store import ShardStore
from relay.errors import RelayUnreachable
from relay.page_client import PageClient, parse_head
from relay.pages import PageRequest, PageResponse
from tests.support.inline_threads import inline_threads
from tests.support.relays import running_relay, tls_config
from tests.support.trio_test import trio_test

BODY = hashlib.shake_256(b"a shard").digest(300_000)
NAME = hashlib.sha256(BODY).hexdigest()
EXPERT = ManifestExpert(
    expert=ExpertId(1, 2),
    layout=0,
    digest=bytes.fromhex(NAME),
    n_bytes=len(BODY),
    ranges=((0, 300_000),),
)


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


async def blobs(request: PageRequest) -> PageResponse:
    assert request.path == f"/blob/{NAME}"
    first = int(request.headers["range"].removeprefix("bytes=").partition("-")[0])
    told = {"Content-Range": f"bytes {first}-{len(BODY) - 1}/{len(BODY)}"}
    return PageResponse(status=206, body=BODY[first:], headers=told, keep_alive=True)


@trio_test
async def test_a_part_goes_on_over_tls_that_is_pinned(tmp_path: Path) -> None:
    store, came = ShardStore(tmp_path, max_bytes=1 << 20), []
    part = store.begin(NAME, len(BODY))
    part.append(BODY[:100_000])
    part.abandon()
    async with running_relay(tls_config(), pages={"/blob/": blobs}) as relay:
        async with RelayBlobs([relay.endpoint("127.0.0.1")]) as relays:
            await fetch_from_sources(
                store, EXPERT, relays.sources, Distrust(), came=came.append
            )
    assert store.read(NAME) == BODY
    assert sum(came) == 200_000


class Client(PageClient):
    """Answers with the next of `answers`: a head and a body, or an error."""

    def __init__(self, *answers: tuple[bytes, bytes] | Exception) -> None:
        self.name = "relay test"
        self.answers = list(answers)
        self.n_asked = 0

    def get(self, path, headers):
        self.n_asked += 1
        return _Answer(self.answers.pop(0))

    def close(self) -> None:
        pass


class _Answer:
    def __init__(self, told: tuple[bytes, bytes] | Exception) -> None:
        self.told = told

    async def __aenter__(self) -> Self:
        if isinstance(self.told, Exception):
            raise self.told
        self.head, self.body = parse_head(self.told[0], "relay test"), [self.told[1]]
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def next_chunk(self) -> bytes:
        return self.body.pop() if self.body else b""


def head(status: int, length: int = 0, *lines: str) -> bytes:
    told = [f"HTTP/1.1 {status} x", f"content-length: {length}", *lines]
    return "\r\n".join(told).encode()


WHOLE = (head(200, len(BODY)), BODY)
LATER = (head(503, 0, "retry-after: 2"), b"")
NONE = (head(404), b"")


async def fetch(folder: Path, source: RelaySource) -> None:
    store = ShardStore(folder, max_bytes=1 << 20)
    await fetch_from_sources(store, EXPERT, [source], Distrust())


@trio_test(autojump=True)
async def test_a_relay_that_is_filling_is_waited_for(tmp_path: Path) -> None:
    client = Client(LATER, LATER, WHOLE)
    started = trio.current_time()
    await fetch(tmp_path, RelaySource(client))
    assert trio.current_time() - started == pytest.approx(4)
    busy = RelaySource(Client(*[LATER] * 60))
    with pytest.raises(ShardUnavailable, match="still busy"):
        await fetch(tmp_path / "other", busy)


@trio_test(autojump=True)
async def test_a_relay_that_has_nothing_is_left_alone_for_a_while(
    tmp_path: Path,
) -> None:
    client = Client(NONE, NONE, NONE, WHOLE)
    source = RelaySource(client)
    for _ in range(5):
        with pytest.raises(ShardUnavailable):
            await fetch(tmp_path, source)
    assert client.n_asked == 3
    await trio.sleep(61)
    await fetch(tmp_path, source)


@pytest.mark.parametrize(
    "answer",
    [
        RelayUnreachable("no way", peer="x"),
        (head(200, len(BODY)), BODY[:-1]),
        (head(200, len(BODY) - 1), BODY[:-1]),
        (head(200, len(BODY) + 1), BODY + b"!"),
        (head(206, len(BODY), "content-range: bytes 1-300000/300001"), BODY),
        (head(302), b""),
        (head(500), b""),
    ],
)
@trio_test(autojump=True)
async def test_whatever_it_answers_is_no_more_than_a_reason(
    tmp_path: Path, answer: object
) -> None:
    with pytest.raises(ShardUnavailable, match="relay test"):
        await fetch(tmp_path, RelaySource(Client(answer)))


@trio_test(autojump=True)
async def test_a_relay_that_gave_wrong_bytes_is_asked_nothing_for_a_while(
    tmp_path: Path,
) -> None:
    source = RelaySource(Client(WHOLE))
    source.blame()
    with pytest.raises(ShardUnavailable, match="not asked now"):
        await fetch(tmp_path, source)
