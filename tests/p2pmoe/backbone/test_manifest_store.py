import hashlib
import logging
import os
import shutil
from pathlib import Path

import pytest

from p2pmoe.backbone import manifest_store
from p2pmoe.backbone.manifest_store import stored_manifest
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.manifest import ManifestOptions, build_manifest
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.backbone_model import POCKET

OPTIONS = ManifestOptions(tokenizer_digest=bytes(32))


@pytest.fixture
def model_file(tmp_path: Path) -> ModelFile:
    return open_model(Path(shutil.copy(POCKET, tmp_path / "m.gguf")))


def record(folder: Path) -> Path:
    (path,) = folder.glob("manifest-*.bin")
    return path


def bent(raw: bytes, old: bytes, new: bytes) -> bytes:
    """Return a record with other bytes in it, and the checksum they ask for."""
    own = raw[:-32].replace(old, new)
    return own + hashlib.sha256(own).digest()


def must_hash(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by one each time the model is hashed anew."""
    hashed: list[int] = []

    def building(*args: object, **named: object) -> object:
        if "digests" not in named:
            hashed.append(1)
        return build_manifest(*args, **named)

    monkeypatch.setattr(manifest_store, "build_manifest", building)
    return hashed


def test_the_second_start_hashes_nothing(
    tmp_path: Path,
    model_file: ModelFile,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    hashed = must_hash(monkeypatch)
    first = stored_manifest(tmp_path, model_file, OPTIONS)
    assert first == build_manifest(model_file, OPTIONS)
    assert caplog.messages[0] == "hashing 224 experts, once for this model file"
    assert caplog.messages[-1] == "hashed 224 of 224 experts"
    assert stored_manifest(tmp_path, model_file, OPTIONS) == first
    assert hashed == [1]


def test_other_options_hash_again(
    tmp_path: Path, model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed = must_hash(monkeypatch)
    stored_manifest(tmp_path, model_file, OPTIONS)
    other = ManifestOptions(tokenizer_digest=b"x" * 32)
    assert stored_manifest(tmp_path, model_file, other).tokenizer_digest == b"x" * 32
    assert hashed == [1, 1]


@pytest.mark.parametrize(
    "bend",
    [
        lambda raw: b"",
        lambda raw: b"PMMANI1\0" + raw[8:],
        lambda raw: raw[:40] + b"\xff" * 100,
        lambda raw: raw[:-40],
        lambda raw: raw + b"\0",
        lambda raw: raw[:8] + bytes(32) + raw[40:],
        lambda raw: bent(raw, raw[8:40], bytes(32)),
        lambda raw: bent(raw, b"PMMANI3", b"PMMANI2"),
        lambda raw: bent(raw, b"minimax-m3", b"minimax-m4"),
        lambda raw: raw.replace(b"minimax-m3", b"minimax-m4"),
        lambda raw: raw[:-1] + bytes([raw[-1] ^ 1]),
        lambda raw: bytes(20 << 20),
    ],
)
def test_a_record_that_is_not_this_models_is_ignored(
    tmp_path: Path, model_file: ModelFile, monkeypatch: pytest.MonkeyPatch, bend
) -> None:
    first = stored_manifest(tmp_path, model_file, OPTIONS)
    path = record(tmp_path)
    path.write_bytes(bend(path.read_bytes()))
    hashed = must_hash(monkeypatch)
    assert stored_manifest(tmp_path, model_file, OPTIONS) == first
    assert hashed == [1]


def test_wrong_digests_are_found_by_hashing_some_again(
    tmp_path: Path, model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stored_manifest(tmp_path, model_file, OPTIONS)
    path = record(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(bent(raw, first.experts[28].digest, bytes(32)))
    hashed = must_hash(monkeypatch)
    assert stored_manifest(tmp_path, model_file, OPTIONS) == first
    assert hashed == [1]


def test_one_flipped_bit_in_a_digest_that_is_not_hashed_again_is_found(
    tmp_path: Path, model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stored_manifest(tmp_path, model_file, OPTIONS)
    path = record(tmp_path)
    digest = first.experts[1].digest
    wrong = bytes([digest[0] ^ 1]) + digest[1:]
    path.write_bytes(path.read_bytes().replace(digest, wrong))
    hashed = must_hash(monkeypatch)
    assert stored_manifest(tmp_path, model_file, OPTIONS) == first
    assert hashed == [1]


def test_a_file_that_was_written_to_is_hashed_again(
    tmp_path: Path, model_file: ModelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored_manifest(tmp_path, model_file, OPTIONS)
    os.utime(model_file.path, ns=(1, 1))
    hashed = must_hash(monkeypatch)
    stored_manifest(tmp_path, open_model(model_file.path), OPTIONS)
    assert hashed == [1]


def test_a_folder_that_cannot_be_written_costs_only_the_record(
    tmp_path: Path, model_file: ModelFile, caplog: pytest.LogCaptureFixture
) -> None:
    found = stored_manifest(tmp_path / "missing", model_file, OPTIONS)
    assert len(found.experts) == 224
    assert "cannot keep" in caplog.messages[-1]


def test_b03_a_file_cut_short_is_refused(tmp_path: Path, model_file: ModelFile) -> None:
    os.truncate(model_file.path, 1 << 20)
    with pytest.raises(ModelFileError):
        stored_manifest(tmp_path, model_file, OPTIONS)
    assert not list(tmp_path.glob("manifest-*"))


def test_long_hashing_is_told_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="p2pmoe.backbone")
    now = iter([0.0, 1.0, 9.0, 10.0, 19.0, 19.5])
    progress = manifest_store._Progress(lambda: next(now))
    for done in range(1, 6):
        progress(done, 5)
    assert caplog.messages == [
        "hashing 5 experts, once for this model file",
        "hashed 3 of 5 experts",
        "hashed 5 of 5 experts",
    ]
