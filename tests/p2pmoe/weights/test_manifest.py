import hashlib
from pathlib import Path

import pytest

from mobile_worker.arithmetic.activation import ActivationKind
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.manifest import parse_manifest
from mobile_worker.shards.model_files import ModelFilePart
from mobile_worker.shards.shard import expert_weights, shard_bytes
from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.experts import expert_ranges, read_expert
from p2pmoe.weights.manifest import ManifestOptions, build_manifest
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import write_gguf
from tests.support.shared import shared_path

FILE = ModelFilePart(n_bytes=1 << 30, urls=("https://models.example/p.gguf",))
DEMO = Path(__file__).parents[3] / "p2pmoe/models/pocket-q4_0.gguf"


def test_the_demo_model_has_a_manifest() -> None:
    calls: list[tuple[int, int]] = []
    options = ManifestOptions(files=(FILE,), tokenizer_digest=bytes(32))
    with open_model(DEMO) as model:
        manifest = build_manifest(
            model, options, progress=lambda done, total: calls.append((done, total))
        )
        assert manifest.files == (FILE,)
        assert manifest.name == "p2pmoe-pocket"
        assert manifest.architecture == "minimax-m3"
        assert (manifest.n_layer, manifest.n_expert, manifest.n_embd) == (8, 32, 256)
        assert [e.expert.layer for e in manifest.experts[::32]] == list(range(1, 8))
        assert len(manifest.layouts) == 1
        assert manifest.layouts[0].activation.kind is ActivationKind.SWIGLU_OAI
        assert calls[-1] == (224, 224)
        assert len(calls) == 224
        entry = manifest.experts[40]
        shard = read_expert(model, expert_ranges(model, entry.expert))
        assert entry.expert == ExpertId(2, 8)
        assert hashlib.sha256(shard).digest() == entry.digest
        assert b"".join(model.read_range(*part) for part in entry.ranges) == shard
        weights = expert_weights(shard, manifest.layouts[entry.layout])
        assert weights.gate.n_rows == 128
        assert parse_manifest(manifest.encode()) == manifest


def test_layers_may_differ_in_format() -> None:
    path = shared_path("models/pocket/pocket-q4_k_m.gguf")
    with open_model(path) as model:
        manifest = build_manifest(model)
        assert len(manifest.layouts) > 1
        for entry in manifest.experts:
            assert shard_bytes(manifest.layouts[entry.layout]) == entry.n_bytes


def test_a_model_without_experts_is_refused(tmp_path: Path) -> None:
    meta = {"general.architecture": "llama", "llama.block_count": 2}
    with open_model(write_gguf(tmp_path / "m", meta)) as model:
        with pytest.raises(UnsupportedModel, match="no routed experts"):
            build_manifest(model)
