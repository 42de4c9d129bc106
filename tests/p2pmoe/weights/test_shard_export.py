"""A model's experts as files named by their hash; none is written twice."""

import dataclasses
import hashlib
from pathlib import Path

import pytest

from mobile_worker.shards.errors import ShardCorrupt, StoreFull
from mobile_worker.shards.store import ShardStore
from p2pmoe.weights.manifest import build_manifest
from p2pmoe.weights.model_file import open_model
from p2pmoe.weights.shard_export import export_shards
from tests.support.backbone_model import POCKET


def test_every_expert_is_written_once(tmp_path: Path) -> None:
    store = ShardStore(tmp_path, max_bytes=1 << 30)
    with open_model(POCKET) as model:
        manifest = build_manifest(model)
        told: list[tuple[int, int]] = []
        n = len(manifest.experts)
        n_new, n_bytes = export_shards(
            model, manifest, store, lambda done, of: told.append((done, of))
        )
        assert (n_new, n_bytes) == (n, sum(e.n_bytes for e in manifest.experts))
        assert told[-1] == (n, n)
        first = tmp_path / f"{manifest.experts[0].digest.hex()}.shard"
        body = first.read_bytes()
        assert hashlib.sha256(body).digest() == manifest.experts[0].digest
        # An interrupted run goes on where it was.
        first.unlink()
        first.with_suffix(".part").write_bytes(body[: len(body) // 2])
        again = ShardStore(tmp_path, max_bytes=1 << 30)
        assert export_shards(model, manifest, again) == (1, len(body))
        assert first.read_bytes() == body
        assert export_shards(model, manifest, again) == (0, 0)


def test_another_file_than_the_manifests_is_found_out(tmp_path: Path) -> None:
    with open_model(POCKET) as model:
        manifest = build_manifest(model)
        expert = dataclasses.replace(manifest.experts[0], digest=bytes(32))
        wrong = dataclasses.replace(manifest, experts=(expert,))
        with pytest.raises(ShardCorrupt):
            export_shards(model, wrong, ShardStore(tmp_path, max_bytes=1 << 30))
        with pytest.raises(StoreFull):
            export_shards(model, manifest, ShardStore(tmp_path, max_bytes=1000))
