"""A base file: pieces come in, a model comes out, and experts are in neither."""

import dataclasses
import hashlib
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from mobile_worker.shards.manifest import Manifest
from p2pmoe.weights import base_file
from p2pmoe.weights.base_file import BaseFile, open_base
from p2pmoe.weights.errors import ModelFileError, NotHere
from p2pmoe.weights.model_file import ModelFile, open_model
from p2pmoe.weights.public_files import open_public, public_manifest
from tests.support.gguf_writer import write_gguf
from tests.support.mini_m3 import MINI_METADATA, mini_tensors, write_mini_m3

URL = "https://models.example/"


def whole_set(folder: Path) -> Path:
    tensors = list(mini_tensors().values())
    for number in range(3):
        keys = {
            "split.no": number,
            "split.count": 3,
            "split.tensors.count": len(tensors),
        }
        meta = keys if number else {**MINI_METADATA, **keys}
        path = folder / f"mini-0000{number + 1}-of-00003.gguf"
        write_gguf(path, meta, tensors[number::3])
    return path


@pytest.fixture(params=["one file", "a set"])
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> ModelFile:
    is_set = request.param == "a set"
    path = whole_set(tmp_path) if is_set else write_mini_m3(tmp_path / "mini.gguf")
    return open_model(path)


def manifest_of(model: ModelFile) -> Manifest:
    opened, files = open_public(model.path, [URL])
    with opened:
        return public_manifest(opened, files, bytes(32))


def fill(path: Path, manifest: Manifest, model: ModelFile) -> Path:
    with BaseFile(path, manifest) as base:
        for number in reversed(base.missing()):
            piece = base.pieces[number]
            body = model.read_range(piece.offset, piece.n_bytes)
            assert base.put(number, body)
        base.sync()
        assert base.missing() == []
    return path


def test_a_base_is_the_model_without_its_experts(
    tmp_path: Path, whole: ModelFile
) -> None:
    manifest = manifest_of(whole)
    path = fill(tmp_path / "base", manifest, whole)
    held = path.read_bytes()
    assert len(held) == sum(piece.n_bytes for piece in manifest.base)
    with open_base(path, manifest) as base:
        assert base.fingerprint() == whole.fingerprint()
        assert dict(base.metadata) == dict(whole.metadata)
        assert base.name == whole.name
        for name, tensor in whole.tensors.items():
            assert base.tensor(name) == tensor
            if "_exps" not in name:
                assert base.read(name) == whole.read(name)
        for entry in manifest.experts:
            for offset, n_bytes in entry.ranges:
                assert whole.read_range(offset, n_bytes) not in held
                for at in (offset, offset + n_bytes - 1):
                    with pytest.raises(NotHere, match="not on this machine"):
                        base.read_range(at, 1)


def test_what_is_there_is_known_by_its_hash(tmp_path: Path) -> None:
    whole = open_model(write_mini_m3(tmp_path / "mini.gguf"))
    manifest = manifest_of(whole)
    path, seen = fill(tmp_path / "base", manifest, whole), []
    with BaseFile(path, manifest) as base:
        assert not base.put(0, bytes(base.pieces[0].n_bytes))
        assert base.missing(lambda *told: seen.append(told)) == []
        assert seen[-1] == (base.n_bytes, base.n_bytes)
    with path.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"!")
    with BaseFile(path, manifest) as base:
        assert base.missing() == [len(manifest.base) - 1]


def test_what_was_never_written_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = open_model(write_mini_m3(tmp_path / "mini.gguf"))
    manifest = manifest_of(whole)
    size = 1 << 22
    pieces = tuple(
        replace(manifest.base[0], offset=at * size, n_bytes=size) for at in range(50)
    )
    large = SimpleNamespace(base=pieces)  # 200 MB of nothing
    reads: list[int] = []
    monkeypatch.setattr(base_file, "read_at", lambda *a: reads.append(a[1]) or b"")
    with BaseFile(tmp_path / "base", large) as base:
        assert base.missing() == list(range(50))
        if hasattr(os, "SEEK_DATA"):
            assert reads == []


def refusal(tmp_path: Path, bend) -> str:
    whole = open_model(write_mini_m3(tmp_path / "mini.gguf"))
    manifest = bend(manifest_of(whole))
    path = fill(tmp_path / "base", manifest, whole)
    with pytest.raises(ModelFileError) as caught:
        open_base(path, manifest)
    return str(caught.value)


def with_layout(manifest: Manifest, **changes: object) -> Manifest:
    layout = dataclasses.replace(manifest.layouts[0], **changes)
    return replace(manifest, layouts=(layout, *manifest.layouts[1:]))


@pytest.mark.parametrize(
    ("bend", "says"),
    [
        (lambda m: replace(m, n_layer=m.n_layer + 1), "its header says otherwise"),
        (lambda m: replace(m, n_expert=m.n_expert + 1), "its header says otherwise"),
        (lambda m: replace(m, architecture="olmoe"), "its header says otherwise"),
        (lambda m: with_layout(m, gate_format=0), "its header says otherwise"),
        (lambda m: replace(m, experts=m.experts[:-1]), "does not name"),
        (lambda m: replace(m, base=m.base[1:]), "not on this machine"),
        (lambda m: replace(m, base=m.base[:-1]), "not on this machine|names no base"),
        (lambda m: replace(m, files=m.files * 2), "is not on this machine|parts"),
    ],
    ids=range(8),
)
def test_a_manifest_that_is_not_of_its_header_is_refused(
    tmp_path: Path, bend, says: str
) -> None:
    assert re.search(says, refusal(tmp_path, bend))


def test_a_header_cut_in_the_middle_is_refused(tmp_path: Path) -> None:
    def short(manifest: Manifest) -> Manifest:
        first = manifest.base[0]
        body = (tmp_path / "mini.gguf").read_bytes()[:100]
        cut = replace(first, n_bytes=100, digest=hashlib.sha256(body).digest())
        return replace(manifest, base=(cut, *manifest.base[1:]))

    assert "header is not all on this machine" in refusal(tmp_path, short)


def test_a_file_of_another_size_is_refused(tmp_path: Path) -> None:
    whole = open_model(write_mini_m3(tmp_path / "mini.gguf"))
    manifest = manifest_of(whole)
    path = fill(tmp_path / "base", manifest, whole)
    os.truncate(path, 1000)
    with pytest.raises(ModelFileError, match="has 1000 bytes, not the base's"):
        open_base(path, manifest)
    with pytest.raises(ModelFileError, match="cannot be opened"):
        open_base(tmp_path / "gone", manifest)
