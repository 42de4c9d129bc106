"""A model in parts computes the same as in one file, and has the same shards."""

from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.local_side import LocalOptions, LocalSide
from p2pmoe.backbone.mapped.mapped_experts import map_experts
from p2pmoe.backbone.shard_reader import ShardReader
from p2pmoe.model.local_experts import LocalExperts
from p2pmoe.model.model import Logits, load_model
from p2pmoe.weights.expert_file import ExpertFile
from p2pmoe.weights.experts import expert_layers
from p2pmoe.weights.manifest import build_manifest
from p2pmoe.weights.model_file import open_model
from tests.support.gguf_writer import write_gguf
from tests.support.mapped import disk_work, right_values, values_of
from tests.support.mini_m3 import MINI_METADATA, N_EMBD, mini_tensors, write_mini_m3

PROMPT = list(range(3, 30, 2))
N_PARTS = 3


@pytest.fixture
def part(tmp_path: Path) -> Path:
    """Write the small model in parts, a third of its tensors each; return the last."""
    tensors = list(mini_tensors().values())
    for number in range(N_PARTS):
        keys = {
            "split.no": number,
            "split.count": N_PARTS,
            "split.tensors.count": len(tensors),
        }
        meta = keys if number else {**MINI_METADATA, **keys}
        path = tmp_path / f"mini-0000{number + 1}-of-0000{N_PARTS}.gguf"
        write_gguf(path, meta, tensors[number::N_PARTS])
    return path


def logits(path: Path) -> np.ndarray:
    kernel = NumpyKernel()
    with open_model(path) as model_file:
        model = load_model(model_file, kernel)
        experts = LocalExperts.load(model_file, kernel)
    cache = model.new_cache(len(PROMPT))
    return model.forward(PROMPT, cache, experts, logits=Logits.ALL)


def test_logits_are_bit_equal(tmp_path: Path, part: Path) -> None:
    whole = logits(write_mini_m3(tmp_path / "whole.gguf"))
    assert logits(part).tobytes() == whole.tobytes()


def test_shards_are_the_same_and_are_served_from_their_parts(
    tmp_path: Path, part: Path
) -> None:
    with (
        open_model(write_mini_m3(tmp_path / "whole.gguf")) as whole,
        open_model(part) as split,
    ):
        one, other = build_manifest(whole), build_manifest(split)
        assert [e.digest for e in one.experts] == [e.digest for e in other.experts]
        assert other.name == "mini"
        readers = (
            ShardReader(whole, one, bytes(32)),
            ShardReader(split, other, bytes(32)),
        )
        for entry in one.experts:
            name = entry.digest.hex()
            found = [reader.read_range(name, 0, entry.n_bytes) for reader in readers]
            assert found[0] == found[1]


def test_a_backbone_opens_a_set(tmp_path: Path, part: Path) -> None:
    local = LocalSide(open_model(part), LocalOptions(data=tmp_path))
    local.warm_up([])
    assert len(local.hot.resident()) == 4


def test_a_set_is_mapped_as_one(part: Path) -> None:
    with open_model(part) as split:
        experts = ExpertFile(split)
        assert len(split.descriptors()) == N_PARTS
        tier = map_experts(
            split, experts, kernel="numpy", n_threads=1, cost=LocalCost()
        )
        for layer in expert_layers(split):
            work = disk_work(experts, layer, 0, 1, n_embd=N_EMBD)
            found = values_of(tier.begin(work).finish())
            assert found == right_values(experts, work)
        assert tier.restarts.n_starts == 1
        tier.close()
