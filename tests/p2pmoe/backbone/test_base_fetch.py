"""The base comes piece by piece, and goes on where it was."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.http_source import HttpSource
from p2pmoe.backbone.base_fetch import fetch_base
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.base_file import BaseFile
from tests.support.backbone_model import POCKET
from tests.support.base_models import FAST, PublicModel, public_model
from tests.support.inline_threads import inline_threads
from tests.support.trio_test import trio_test


@pytest.fixture(autouse=True)
def _no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    inline_threads(monkeypatch)


@pytest.fixture(scope="module")
def whole() -> PublicModel:
    return public_model(POCKET, with_tokenizer=False)


@pytest.fixture
def model(whole: PublicModel) -> PublicModel:
    return whole.changed()


async def fetch(model: PublicModel, path: Path) -> list[tuple[str, float]]:
    told: list[tuple[str, float]] = []
    async with model.server.open_client() as client:
        source = HttpSource(client, model.manifest.files, FAST)
        await fetch_base(path, model.manifest, source, lambda *said: told.append(said))
    return told


def missing(model: PublicModel, path: Path) -> list[int]:
    with BaseFile(path, model.manifest) as base:
        return base.missing()


@trio_test
async def test_all_of_the_base_and_nothing_else_is_asked_for(
    tmp_path: Path, model: PublicModel
) -> None:
    path = tmp_path / "base"
    told = await fetch(model, path)
    size = sum(piece.n_bytes for piece in model.manifest.base)
    assert model.server.n_bytes == size == path.stat().st_size
    assert missing(model, path) == []
    assert told[-1] == ("fetching the base", 1.0)
    assert ("checking the base", 1.0) in told
    again = await fetch(model, path)
    assert model.server.n_bytes == size
    assert again[-1] == ("checking the base", 1.0)


@trio_test
async def test_what_came_before_a_break_is_kept(
    tmp_path: Path, model: PublicModel
) -> None:
    path, count = tmp_path / "base", iter(range(10_000))
    model.server.bend = lambda _h, _n, body: body if next(count) < 5 else None
    with pytest.raises(ShardUnavailable, match="connection reset"):
        await fetch(model, path)
    left = missing(model, path)
    assert 0 < len(left) < len(model.manifest.base)
    model.server.bend = lambda _h, _n, body: body
    model.server.asked.clear()
    await fetch(model, path)
    sizes = [model.manifest.base[number].n_bytes for number in left]
    assert model.server.n_bytes == sum(sizes)
    assert missing(model, path) == []


@trio_test
async def test_a_mirror_makes_up_for_wrong_bytes(
    tmp_path: Path, model: PublicModel, caplog: pytest.LogCaptureFixture
) -> None:
    def lie(host: str, _: str, body: bytes) -> bytes:
        return bytes(len(body)) if host == "a.example" else body

    model.server.bend = lie
    await fetch(model, tmp_path / "base")
    assert missing(model, tmp_path / "base") == []
    assert "came as other bytes" in caplog.text


@trio_test
async def test_wrong_bytes_everywhere_are_never_written(
    tmp_path: Path, model: PublicModel
) -> None:
    model.server.bend = lambda _h, _n, body: bytes(b ^ 1 for b in body)
    with pytest.raises(ShardUnavailable, match="other bytes at"):
        await fetch(model, tmp_path / "base")
    assert not any((tmp_path / "base").read_bytes())


@trio_test
async def test_a_disk_without_room_is_told_first(
    tmp_path: Path, model: PublicModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(ConfigurationError, match=r"5 MiB more .* has 1 MiB free"):
        await fetch(model, tmp_path / "base")
    assert model.server.asked == []
