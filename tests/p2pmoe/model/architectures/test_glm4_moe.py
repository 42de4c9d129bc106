import re
from pathlib import Path

import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.model.errors import ModelRefused
from p2pmoe.weights.errors import ModelFileError
from tests.support.kernels import fastest_kernel, kernel_name
from tests.support.mini_logits import PROMPT, mini_logits
from tests.support.mini_models import matrix, mini_tensors, write_mini
from tests.support.tiny_model import (
    assert_any_chunking,
    assert_is_the_reference,
    load_local,
)

ARCHITECTURE = "glm4moe"

logits = mini_logits(ARCHITECTURE)


@pytest.mark.parametrize("kernel", [NumpyKernel(), fastest_kernel()], ids=kernel_name)
def test_logits_and_greedy_ids_are_the_references(kernel) -> None:
    assert_is_the_reference("glm4_moe", kernel)


def test_any_chunking_gives_the_same_bytes(tmp_path: Path) -> None:
    path = write_mini(tmp_path / "m.gguf", ARCHITECTURE)
    assert_any_chunking(load_local(path), PROMPT)


def test_b12_flags_that_are_absent(tmp_path: Path) -> None:
    names = ("gating_func", "weights_norm", "weights_scale", "shared_count")
    absent = logits(tmp_path, {f"expert_{name}": None for name in names})
    assert absent == logits(tmp_path, {"expert_weights_scale": 1.0})
    assert absent != logits(tmp_path)
    off = {"expert_weights_scale": 1.0, "expert_weights_norm": False}
    assert absent != logits(tmp_path, off)


def test_norms_and_biases_are_there_or_not(tmp_path: Path) -> None:
    whole = logits(tmp_path)
    for kind in ("_norm.weight", ".bias"):
        names = [
            name
            for name in mini_tensors(ARCHITECTURE)
            if re.fullmatch(rf"blk\.\d\.attn_[qkv]{re.escape(kind)}", name)
        ]
        assert len(names) >= 4
        assert logits(tmp_path, None, dict.fromkeys(names)) != whole
    with pytest.raises(ModelRefused, match=r"blk\.0\.attn_k_norm\.weight has no place"):
        logits(tmp_path, None, {"blk.0.attn_q_norm.weight": None})


def test_blocks_that_predict_further_tokens_are_ignored(tmp_path: Path) -> None:
    head = matrix("blk.2.nextn.eh_proj.weight", 64, 128)
    keys = {"block_count": 3, "nextn_predict_layers": 1}
    assert logits(tmp_path, keys, {head.name: head}) == logits(tmp_path)


def test_a_model_may_have_no_shared_expert(tmp_path: Path) -> None:
    parts = [f"blk.1.ffn_{part}_shexp.weight" for part in ("gate", "up", "down")]
    none = {"expert_shared_count": 0}
    assert logits(tmp_path, none, dict.fromkeys(parts)) != logits(tmp_path)
    with pytest.raises(ModelRefused, match=r"ffn_gate_shexp\.weight has no place"):
        logits(tmp_path, none)
    with pytest.raises(ModelFileError, match="ffn_gate_shexp"):
        logits(tmp_path, None, dict.fromkeys(parts))


def test_groups_limit_the_choice(tmp_path: Path) -> None:
    keys = {"expert_group_count": 2, "expert_group_used_count": 1}
    assert logits(tmp_path, keys) != logits(tmp_path)


def test_leading_layers_are_dense_as_the_file_says(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match="leading_dense_block_count is 0"):
        logits(tmp_path, {"leading_dense_block_count": 0})
