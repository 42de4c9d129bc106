"""Shards by hash come straight from the model file, range by range."""

import hashlib
from pathlib import Path

import pytest

from mobile_worker.messages import BlobError, Get
from mobile_worker.shards.errors import ShardMissing
from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.backbone.shard_reader import ShardReader
from p2pmoe.weights.model_file import open_model
from tests.support.backbone_model import POCKET, manifest_of, model_of

MANIFEST = manifest_of(POCKET)
ENTRY = MANIFEST.experts[100]


def reader() -> ShardReader:
    return ShardReader(model_of(POCKET), MANIFEST, manifest_hash(MANIFEST))


def test_pieces_of_any_size_make_the_shard() -> None:
    whole = b""
    while len(whole) < ENTRY.n_bytes:
        total, piece = reader().read_range(ENTRY.digest.hex(), len(whole), 17_001)
        assert total == ENTRY.n_bytes
        assert piece
        whole += piece
    assert hashlib.sha256(whole).digest() == ENTRY.digest
    assert reader().read_range(ENTRY.digest.hex(), ENTRY.n_bytes, 10)[1] == b""


def test_the_manifest_itself_can_be_had() -> None:
    name = manifest_hash(MANIFEST)
    total, body = reader().read_range(name.hex(), 0, 1 << 30)
    assert hashlib.sha256(body).digest() == name
    assert total == len(body)


def test_what_is_not_of_the_model_is_not_here() -> None:
    with pytest.raises(ShardMissing):
        reader().read_range("00" * 32, 0, 10)
    blob = reader().blob(Get(request=1, digest=bytes(32), offset=0, length=10))
    assert blob.error == BlobError.UNKNOWN
    past = Get(request=1, digest=ENTRY.digest, offset=1 << 40, length=10)
    assert reader().blob(past).error == BlobError.RANGE


def test_b03_a_file_cut_short_is_a_shard_that_is_not_here(tmp_path: Path) -> None:
    path = tmp_path / "cut.gguf"
    path.write_bytes(POCKET.read_bytes())
    file = open_model(path)
    with path.open("r+b") as cut:
        cut.truncate(1 << 20)
    cut_reader = ShardReader(file, MANIFEST, bytes(32))
    get = Get(request=1, digest=MANIFEST.experts[-1].digest, offset=0, length=100)
    assert cut_reader.blob(get).error == BlobError.UNKNOWN
