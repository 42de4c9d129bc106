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

ARCHITECTURE = "qwen3moe"
EXPERTS = tuple(
    f"blk.0.ffn_{part}" for part in ("gate_inp", "gate_exps", "up_exps", "down_exps")
)

logits = mini_logits(ARCHITECTURE)


@pytest.mark.parametrize("kernel", [NumpyKernel(), fastest_kernel()], ids=kernel_name)
def test_logits_and_greedy_ids_are_the_references(kernel) -> None:
    assert_is_the_reference("qwen3_moe", kernel)


def test_any_chunking_gives_the_same_bytes(tmp_path: Path) -> None:
    path = write_mini(tmp_path / "m.gguf", ARCHITECTURE)
    assert_any_chunking(load_local(path), PROMPT)


def test_b12_the_chosen_are_divided_by_their_sum_unless_the_file_says_no(
    tmp_path: Path,
) -> None:
    absent = logits(tmp_path)
    assert logits(tmp_path, {"expert_weights_norm": True}) == absent
    assert logits(tmp_path, {"expert_weights_norm": False}) != absent


def test_a_layer_without_a_router_is_dense(tmp_path: Path) -> None:
    """The publisher's mlp_only_layers, which the tensors tell."""
    own = load_local(write_dense_first(tmp_path / "m.gguf"))
    assert own.model.description.moe_layers == (1,)
    assert_any_chunking(own, PROMPT)


def write_dense_first(path: Path) -> Path:
    experts = [name for name in mini_tensors(ARCHITECTURE) if name.startswith(EXPERTS)]
    dense = {
        "blk.0.ffn_gate.weight": (96, 64),
        "blk.0.ffn_up.weight": (96, 64),
        "blk.0.ffn_down.weight": (64, 96),
    }
    tensors = {name: matrix(name, *shape) for name, shape in dense.items()}
    return write_mini(path, ARCHITECTURE, None, dict.fromkeys(experts) | tensors)


def test_experts_without_a_router_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match=r"blk\.0\.ffn_gate\.weight"):
        logits(tmp_path, None, {"blk.0.ffn_gate_inp.weight": None})


def test_a_sliding_window_is_refused(tmp_path: Path) -> None:
    assert logits(tmp_path, {"attention.sliding_window": 0}) == logits(tmp_path)
    with pytest.raises(ModelRefused, match="sliding_window is set"):
        logits(tmp_path, {"attention.sliding_window": 8})


@pytest.mark.parametrize("part", ["attn_q_norm", "attn_k_norm"])
def test_both_norms_are_needed(tmp_path: Path, part: str) -> None:
    with pytest.raises(ModelFileError, match=rf"blk\.1\.{part}\.weight"):
        logits(tmp_path, None, {f"blk.1.{part}.weight": None})
