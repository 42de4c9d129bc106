"""A manifest is taken only if it has the hash that the voucher names."""

import pytest

from mobile_worker.shards.manifest import manifest_hash
from p2pmoe.errors import ConfigurationError
from p2pmoe.referee.manifests import built_manifest, read_manifest
from p2pmoe.text.tokenizer import load_tokenizer
from p2pmoe.weights.manifest import ManifestOptions, build_manifest
from tests.support.backbone_model import POCKET, manifest_of, model_of


def test_it_is_built_with_and_without_the_tokenizer():
    model, plain = model_of(POCKET), manifest_of(POCKET)
    told: list[float] = []
    found = built_manifest(model, manifest_hash(plain), lambda _, s: told.append(s))
    assert found == plain
    assert told[-1] == 1.0
    known = {entry.expert: entry.digest for entry in plain.experts}
    options = ManifestOptions(tokenizer_digest=load_tokenizer(model).digest)
    served = build_manifest(model, options, digests=known)
    assert served != plain
    assert built_manifest(model, manifest_hash(served), lambda *_: None) == served


def test_another_model_is_refused():
    with pytest.raises(ConfigurationError, match="the voucher names 0000"):
        built_manifest(model_of(POCKET), bytes(32), lambda *_: None)


def test_it_is_read_from_a_file(tmp_path):
    manifest = manifest_of(POCKET)
    path = tmp_path / "manifest"
    path.write_bytes(manifest.encode())
    assert read_manifest(path, manifest_hash(manifest)) == manifest
    with pytest.raises(ConfigurationError, match="the voucher names"):
        read_manifest(path, bytes(32))
    path.write_bytes(b"something else")
    with pytest.raises(ConfigurationError, match="no manifest"):
        read_manifest(path, manifest_hash(manifest))
    with pytest.raises(ConfigurationError, match="no such file"):
        read_manifest(tmp_path / "none", bytes(32))
