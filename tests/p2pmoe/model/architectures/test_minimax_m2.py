from pathlib import Path

import numpy as np
import pytest

from mobile_worker.arithmetic.numpy_kernel import NumpyKernel
from p2pmoe.model.errors import ModelRefused
from tests.support.kernels import fastest_kernel, kernel_name
from tests.support.mini_logits import PROMPT, mini_logits
from tests.support.mini_models import write_mini
from tests.support.tiny_model import (
    assert_any_chunking,
    assert_is_the_reference,
    load_local,
)

ARCHITECTURE = "minimax-m2"

logits = mini_logits(ARCHITECTURE)


@pytest.mark.parametrize("kernel", [NumpyKernel(), fastest_kernel()], ids=kernel_name)
def test_logits_and_greedy_ids_are_the_references(kernel) -> None:
    assert_is_the_reference("minimax_m2", kernel)


def test_any_chunking_gives_the_same_bytes(tmp_path: Path) -> None:
    path = write_mini(tmp_path / "m.gguf", ARCHITECTURE)
    assert_any_chunking(load_local(path), PROMPT)


def test_b12_flags_that_are_absent(tmp_path: Path) -> None:
    absent = logits(tmp_path, {"expert_gating_func": None})
    assert absent == logits(tmp_path, {"expert_weights_norm": True})
    assert absent != logits(tmp_path, {"expert_weights_norm": False})
    assert absent != logits(tmp_path, {"expert_gating_func": 1})
    assert absent != logits(tmp_path, {"expert_weights_scale": 2.0})


def test_the_selection_bias_chooses(tmp_path: Path) -> None:
    name = "blk.0.exp_probs_b.bias"
    bias = np.array([9.0, 9.0, 0.0, 0.0], "<f4").tobytes()
    assert logits(tmp_path, None, {name: bias}) != logits(tmp_path)


def test_half_of_each_head_may_be_turned(tmp_path: Path) -> None:
    assert logits(tmp_path, {"rope.dimension_count": 32}) != logits(tmp_path)
    with pytest.raises(ModelRefused, match="rotary over 48 of 32"):
        logits(tmp_path, {"rope.dimension_count": 48})


def test_a_layer_without_a_router_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelRefused, match=r"blk\.1\.ffn_gate_inp\.weight is missing"):
        logits(tmp_path, None, {"blk.1.ffn_gate_inp.weight": None})
