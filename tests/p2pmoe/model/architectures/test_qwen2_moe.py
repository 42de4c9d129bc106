import dataclasses
from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.model.errors import ModelRefused
from p2pmoe.weights.errors import ModelFileError
from tests.support.kernels import fastest_kernel, kernel_name
from tests.support.mini_logits import PROMPT, mini_logits
from tests.support.mini_models import mini_tensors, write_mini
from tests.support.tiny_model import (
    assert_any_chunking,
    assert_is_the_reference,
    load_local,
)

ARCHITECTURE = "qwen2moe"

logits = mini_logits(ARCHITECTURE)


@pytest.mark.parametrize("kernel", [NumpyKernel(), fastest_kernel()], ids=kernel_name)
def test_logits_and_greedy_ids_are_the_references(kernel) -> None:
    assert_is_the_reference("qwen2_moe", kernel)


def test_any_chunking_gives_the_same_bytes(tmp_path: Path) -> None:
    path = write_mini(tmp_path / "m.gguf", ARCHITECTURE)
    assert_any_chunking(load_local(path), PROMPT)


def test_b12_the_chosen_are_mixed_as_they_are_unless_the_file_says(
    tmp_path: Path,
) -> None:
    absent = logits(tmp_path)
    assert logits(tmp_path, {"expert_weights_norm": False}) == absent
    assert logits(tmp_path, {"expert_weights_norm": True}) != absent


def test_the_shared_experts_gate_may_be_a_matrix_of_one_row(tmp_path: Path) -> None:
    vector = mini_tensors(ARCHITECTURE)["blk.0.ffn_gate_inp_shexp.weight"]
    row = dataclasses.replace(vector, shape=(1, 64))
    assert logits(tmp_path, None, {row.name: row}) == logits(tmp_path)


def test_the_shared_expert_is_weighed_row_by_row(tmp_path: Path) -> None:
    """A gate of zeros halves the shared expert; a missing gate is no gate of ones."""
    name = "blk.1.ffn_gate_inp_shexp.weight"
    assert logits(tmp_path, None, {name: bytes(64 * 4)}) != logits(tmp_path)
    with pytest.raises(ModelFileError, match=r"ffn_gate_inp_shexp\.weight"):
        logits(tmp_path, None, {name: None})


def test_biases_are_there_or_not_but_all_of_them(tmp_path: Path) -> None:
    biases = [
        f"blk.{layer}.{part}.bias"
        for layer in (0, 1)
        for part in ("attn_q", "attn_k", "attn_v")
    ]
    assert logits(tmp_path, None, dict.fromkeys(biases)) != logits(tmp_path)
    with pytest.raises(ModelFileError, match=r"blk\.0\.attn_k\.bias"):
        logits(tmp_path, None, {"blk.0.attn_k.bias": None})
    with pytest.raises(ModelRefused, match=r"blk\.0\.attn_k\.bias has no place"):
        logits(tmp_path, None, {"blk.0.attn_q.bias": None})


def test_a_bias_that_is_no_number_is_refused(tmp_path: Path) -> None:
    bias = np.full(64, np.nan, "<f4").tobytes()
    with pytest.raises(ModelRefused, match=r"blk\.1\.attn_v\.bias .* not finite"):
        logits(tmp_path, None, {"blk.1.attn_v.bias": bias})


def test_old_files_tell_the_size_of_experts_otherwise(tmp_path: Path) -> None:
    keys = {"expert_feed_forward_length": None, "feed_forward_length": 64}
    own = load_local(write_mini(tmp_path / "m.gguf", ARCHITECTURE, keys))
    assert own.model.description.n_ff_expert == 32
