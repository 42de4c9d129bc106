"""The base comes piece by piece, and goes on where it was."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from mobile_worker.shards.errors import ShardUnavailable
from mobile_worker.shards.http_source import HttpSource, open_client
from mobile_worker.shards.model_files import ModelFilePart
from p2pmoe.backbone.base_fetch import fetch_base
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.base_file import BaseFile
from tests.support.backbone_model import POCKET
from tests.support.base_models import FAST, PublicModel, public_model
from tests.support.file_server import serving
from tests.support.injector.conditions import Link
from tests.support.injector.conditions import Path as Path_
from tests.support.injector.proxy import injected
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
    other = bytes(byte ^ 1 for byte in range(256))
    model.server.bend = lambda _h, _n, body: body.translate(other)
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


@trio_test
async def test_over_a_link_that_breaks_again_and_again_all_of_it_comes(
    tmp_path: Path, whole: PublicModel
) -> None:
    """Each connection breaks behind half a megabyte; what had come is not lost."""
    (tmp_path / "m").write_bytes(whole.path.read_bytes())
    breaking = Link(down=Path_(kill_after_bytes=500_000))
    with serving(tmp_path) as server:
        async with injected(*server.server_address[:2], breaking) as link:
            size = whole.manifest.files[0].n_bytes
            url = f"http://127.0.0.1:{link.port}/m"
            model = whole.changed(files=(ModelFilePart(n_bytes=size, urls=(url,)),))
            async with open_client(FAST) as client:
                source = HttpSource(client, model.manifest.files, FAST)
                path = tmp_path / "base"
                await fetch_base(path, model.manifest, source, lambda *_: None)
    assert missing(model, path) == []
    assert source.n_bytes == path.stat().st_size  # nothing came twice
    assert len(server.requests) > len(model.manifest.base)
