"""The digest of all of a model's bytes, and what is believed of one that was kept."""

import hashlib
import json
import logging
import os
from pathlib import Path

import pytest

from p2pmoe.evaluate.weights_digest import (
    known_weights,
    read_weights,
    remember_weights,
)
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.mini_m3 import write_mini_m3


@pytest.fixture
def model(tmp_path: Path):
    with open_model(write_mini_m3(tmp_path / "m.gguf")) as opened:
        yield opened


def kept_file(folder: Path) -> Path:
    (path,) = folder.glob("weights-*.json")
    return path


def test_it_is_the_files_sha256(model: ModelFile):
    told: list[float] = []
    expected = hashlib.sha256(model.path.read_bytes()).hexdigest()
    assert read_weights(model, told.append) == expected
    assert told[-1] == 1.0


def test_a_weight_that_differs_makes_another(model: ModelFile, tmp_path: Path):
    raw = bytearray(model.path.read_bytes())
    raw[-1] ^= 1
    damaged = tmp_path / "other.gguf"
    damaged.write_bytes(raw)
    with open_model(damaged) as other:
        assert other.fingerprint() == model.fingerprint()
        assert read_weights(other) != read_weights(model)


def test_it_is_remembered_until_the_file_changes(model: ModelFile, tmp_path: Path):
    folder = tmp_path / "new" / "runs"
    assert known_weights(model, folder) == ""
    digest = "ab" * 32
    remember_weights(model, folder, digest)
    assert known_weights(model, folder) == digest
    assert [path.suffix for path in folder.iterdir()] == [".json"]
    os.utime(model.path, ns=(1, 1))
    assert known_weights(model, folder) == ""


@pytest.mark.parametrize("digest", ["", "zz" * 32, "ab", 5])
def test_what_is_no_digest_is_not_believed(model: ModelFile, tmp_path: Path, digest):
    remember_weights(model, tmp_path, "ab" * 32)
    path = kept_file(tmp_path)
    path.write_text(json.dumps({**json.loads(path.read_text()), "sha256": digest}))
    assert known_weights(model, tmp_path) == ""


@pytest.mark.parametrize("raw", [b"", b"[]", b"\xff", b"{" * 5000, b" " * 5000])
def test_what_is_no_record_is_as_none(model: ModelFile, tmp_path: Path, raw: bytes):
    remember_weights(model, tmp_path, "ab" * 32)
    kept_file(tmp_path).write_bytes(raw)
    assert known_weights(model, tmp_path) == ""


def test_a_folder_that_cannot_be_written_is_told(model: ModelFile, tmp_path, caplog):
    blocked = tmp_path / "file"
    blocked.write_text("")
    with caplog.at_level(logging.WARNING):
        remember_weights(model, blocked, "ab" * 32)
    assert "cannot keep the digest" in caplog.text
