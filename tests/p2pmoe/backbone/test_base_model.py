"""A model by the address of its manifest: kept, checked, refused."""

from dataclasses import replace
from pathlib import Path

import pytest

from mobile_worker.shards.manifest import MAX_MANIFEST_BYTES
from p2pmoe.backbone.base_model import (
    BaseModel,
    ManifestAddress,
    open_by_manifest,
    parse_address,
)
from p2pmoe.errors import ConfigurationError
from p2pmoe.weights.errors import ModelFileError, ModelUnavailable
from tests.support.base_models import FAST, MANIFEST_URL, PublicModel, public_model
from tests.support.mini_m3 import write_mini_m3


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> PublicModel:
    path = write_mini_m3(tmp_path_factory.mktemp("model") / "mini.gguf")
    return public_model(path, with_tokenizer=False)


@pytest.fixture
def model(whole: PublicModel) -> PublicModel:
    return whole.changed()


def opened(model: PublicModel, folder: Path, pin: str = "") -> BaseModel:
    url = MANIFEST_URL + (f"#{pin}" if pin else "")
    return open_by_manifest(
        url, folder, settings=FAST, open_client=model.server.open_client
    )


def names(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.iterdir())


def test_an_address_may_pin_the_manifest() -> None:
    digest = "0123456789abcdef" * 4
    pinned = ManifestAddress("https://a.example/m", bytes.fromhex(digest))
    assert parse_address(f"https://a.example/m#{digest}") == pinned
    assert parse_address(f"https://a.example/m#{digest.upper()}") == pinned
    assert parse_address("http://127.0.0.1:8/m").digest is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m.manifest",
        "http://a.example/m",
        "https://a.example/m#",
        "https://a.example/m#12",
        "https://a.example/m#" + "g" * 64,
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="--manifest"):
        parse_address(text)


def test_a_model_is_fetched_once(tmp_path: Path, model: PublicModel) -> None:
    first = opened(model, tmp_path)
    assert first.manifest == model.manifest
    assert names(tmp_path) == [".base", ".last", ".manifest"]
    n_bytes = model.server.n_bytes
    again = opened(model, tmp_path)
    assert again.model_file.fingerprint() == first.model_file.fingerprint()
    assert model.server.n_bytes == n_bytes


def test_a_pinned_one_needs_no_server_again(tmp_path: Path, model: PublicModel) -> None:
    opened(model, tmp_path, model.digest)
    model.server.is_up = False
    assert opened(model, tmp_path, model.digest).manifest == model.manifest


def test_without_a_pin_what_was_given_last_serves(
    tmp_path: Path, model: PublicModel, caplog: pytest.LogCaptureFixture
) -> None:
    opened(model, tmp_path)
    model.server.is_up = False
    assert opened(model, tmp_path).manifest == model.manifest
    assert "the manifest that it gave last is used" in caplog.text


def test_a_server_that_is_not_there_is_told(tmp_path: Path, model: PublicModel) -> None:
    model.server.is_up = False
    with pytest.raises(ModelUnavailable, match=r"refused \(tried 2 times"):
        opened(model, tmp_path)


def test_a_base_that_was_changed_on_disk_is_fetched_anew(
    tmp_path: Path, model: PublicModel
) -> None:
    opened(model, tmp_path)
    (path,) = tmp_path.glob("*.base")
    held = path.read_bytes()
    path.write_bytes(held[:-1] + bytes([held[-1] ^ 1]))
    model.server.asked.clear()
    opened(model, tmp_path)
    assert path.read_bytes() == held
    assert model.server.n_bytes == model.manifest.base[-1].n_bytes


def test_another_manifest_than_the_pinned_is_refused(
    tmp_path: Path, model: PublicModel
) -> None:
    with pytest.raises(ModelUnavailable, match="not the one asked for"):
        opened(model, tmp_path, "00" * 32)
    assert names(tmp_path) == []


@pytest.mark.parametrize(
    ("blob", "says"),
    [
        (b"", "malformed"),
        (b"<html>not found</html>", "malformed"),
        (bytes(MAX_MANIFEST_BYTES + 1), "has more than 16777216 bytes"),
    ],
)
def test_what_is_no_manifest_is_refused(
    tmp_path: Path, model: PublicModel, blob: bytes, says: str
) -> None:
    model.server.files = {"m.manifest": blob}
    with pytest.raises(ModelUnavailable, match=says):
        opened(model, tmp_path)
    assert names(tmp_path) == []


def test_a_manifest_that_names_no_files_is_refused(
    tmp_path: Path, model: PublicModel
) -> None:
    with pytest.raises(ModelUnavailable, match="does not say where"):
        opened(model.changed(files=(), base=()), tmp_path)
    with pytest.raises(ModelUnavailable, match="does not say where"):
        opened(model.changed(base=()), tmp_path)


def test_a_hostile_manifest_ends_in_one_line(
    tmp_path: Path, model: PublicModel
) -> None:
    bent = model.changed(n_layer=model.manifest.n_layer + 1)
    with pytest.raises(ModelFileError, match="header says otherwise"):
        opened(bent, tmp_path)
    lying = [
        replace(piece, digest=bytes(32)) if not piece.offset else piece
        for piece in model.manifest.base
    ]
    with pytest.raises(ModelUnavailable, match="other bytes at 0"):
        opened(model.changed(base=tuple(lying)), tmp_path)
    size = model.manifest.files[0].n_bytes
    larger = replace(model.manifest.files[0], n_bytes=size + 1)
    with pytest.raises(ModelUnavailable, match=f"a file of {size} bytes"):
        opened(model.changed(files=(larger,)), tmp_path)
