from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.model.errors import ModelRefused
from tests.support.kernels import fastest_kernel, kernel_name
from tests.support.mini_logits import PROMPT, mini_logits
from tests.support.mini_models import vector, write_mini
from tests.support.tiny_model import (
    assert_any_chunking,
    assert_is_the_reference,
    load_local,
)

ARCHITECTURE = "olmoe"

logits = mini_logits(ARCHITECTURE)


@pytest.mark.parametrize("kernel", [NumpyKernel(), fastest_kernel()], ids=kernel_name)
def test_logits_and_greedy_ids_are_the_references(kernel) -> None:
    assert_is_the_reference("olmoe", kernel)


def test_any_chunking_gives_the_same_bytes(tmp_path: Path) -> None:
    path = write_mini(tmp_path / "m.gguf", ARCHITECTURE)
    assert_any_chunking(load_local(path), PROMPT)


def test_b12_the_chosen_are_mixed_as_they_are_unless_the_file_says(
    tmp_path: Path,
) -> None:
    absent = logits(tmp_path)
    assert logits(tmp_path, {"expert_weights_norm": False}) == absent
    assert logits(tmp_path, {"expert_weights_norm": True}) != absent


def test_queries_keys_and_values_are_clipped_if_the_file_says(tmp_path: Path) -> None:
    absent = logits(tmp_path)
    assert logits(tmp_path, {"attention.clamp_kqv": 1e6}) == absent
    assert logits(tmp_path, {"attention.clamp_kqv": 0.0}) == absent
    keys = {"attention.clamp_kqv": 0.5}
    assert logits(tmp_path, keys) != absent
    own = load_local(write_mini(tmp_path / "m.gguf", ARCHITECTURE, keys))
    _, cache = own.in_steps(PROMPT, [20])
    assert np.abs(cache.layers[0].values).max() == 0.5  # clipped, and never turned
    assert_any_chunking(own, PROMPT)
    with pytest.raises(ModelRefused, match=r"clamp_kqv: -1\.0"):
        logits(tmp_path, {"attention.clamp_kqv": -1.0})


def test_norms_of_single_heads_are_refused(tmp_path: Path) -> None:
    norm = vector("blk.0.attn_q_norm.weight", 32)
    with pytest.raises(ModelRefused, match="vector of 128"):
        logits(tmp_path, None, {norm.name: norm})
