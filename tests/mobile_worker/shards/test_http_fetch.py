"""Shards from a model's files: ranges that are left, resumed, checked."""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.http_fetch import ModelSources, fill_from_files, ranges_from
from mobile_worker.shards.http_source import HttpSource
from mobile_worker.shards.manifest import ManifestExpert
from mobile_worker.shards.model_files import ModelFilePart
from mobile_worker.shards.store import ShardStore
from tests.support.inline_threads import inline_threads
from tests.support.small_model import small_model
from tests.support.trio_test import trio_test

FILE = hashlib.shake_256(b"a model").digest(300_000)
RANGES = ((1000, 90_000), (100_000, 50_000), (250_000, 4))
SHARD = b"".join(FILE[offset : offset + n] for offset, n in RANGES)
EXPERT = ManifestExpert(
    expert=ExpertId(1, 2),
    layout=0,
    digest=hashlib.sha256(SHARD).digest(),
    n_bytes=len(SHARD),
    ranges=RANGES,
)
A, B = "https://a.example/m", "https://b.example/m"


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


class Server(httpx.AsyncByteStream):
    """Serves FILE; `bend` changes what it sends of a host."""

    def __init__(self, bend: Callable[[str, bytes], bytes] = lambda _, b: b) -> None:
        self.asked: list[tuple[str, int]] = []
        self._bend = bend

    def __call__(self, request: httpx.Request) -> httpx.Response:
        match = re.fullmatch(r"bytes=(\d+)-(\d+)", request.headers["range"])
        assert match
        first, last = int(match[1]), int(match[2])
        self.asked.append((request.url.host, first))
        body = self._bend(request.url.host, FILE[first : last + 1])

        async def stream():
            yield body

        told = {"content-range": f"bytes {first}-{last}/{len(FILE)}"}

        class Body(httpx.AsyncByteStream):
            def __aiter__(self):
                return stream()

        return httpx.Response(206, headers=told, stream=Body())

    def source(self) -> HttpSource:
        client = httpx.AsyncClient(transport=httpx.MockTransport(self))
        return HttpSource(client, [ModelFilePart(n_bytes=len(FILE), urls=(A, B))])


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(1, 9)), max_size=6),
    st.integers(0, 60),
)
def test_what_is_left_is_what_was_not_read(ranges: list, position: int) -> None:
    whole = [at for offset, n in ranges for at in range(offset, offset + n)]
    left = [
        at
        for offset, n in ranges_from(ranges, position)
        for at in range(offset, offset + n)
    ]
    assert left == whole[position:]


@trio_test(autojump=True)
async def test_a_shard_is_put_together_from_its_ranges(tmp_path: Path) -> None:
    store, server, came = ShardStore(tmp_path, max_bytes=1 << 20), Server(), []
    part = store.begin(EXPERT.digest.hex(), EXPERT.n_bytes)
    given = await fill_from_files(part, server.source(), EXPERT, came.append)
    part.finish()
    assert store.read(EXPERT.digest.hex()) == SHARD
    assert (sum(came), given) == (len(SHARD), {A})
    assert len(server.asked) == 3


@trio_test
async def test_sources_are_those_of_the_manifest() -> None:
    model = small_model()
    async with ModelSources(loopback=False) as sources:
        assert sources.of(model.name, model.manifest) is None
        public = small_model(files=(ModelFilePart(n_bytes=1 << 20, urls=(A,)),))
        source = sources.of(public.name, public.manifest)
        assert source is not None
        assert sources.of(public.name, public.manifest) is source
