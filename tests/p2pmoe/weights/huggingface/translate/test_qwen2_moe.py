"""Qwen2-MoE: a shared expert, dense layers among the others, refusals."""

from pathlib import Path

import pytest

from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.huggingface.translate import qwen2_moe
from p2pmoe.weights.model_file import read_header
from tests.support.safetensors_folder import assert_same_model, published

WORDS = ("gate_proj", "up_proj", "down_proj")


def test_the_newer_layout_is_the_same_model(tmp_path: Path) -> None:
    model = published("qwen2_moe")
    for layer in range(3):
        stem = f"model.layers.{layer}.mlp"
        model.stack_experts(stem, WORDS, stem)
    assert_same_model(model.write(tmp_path / "m"), "qwen2_moe")


def test_a_layer_without_a_router_is_dense(tmp_path: Path) -> None:
    model = published("qwen2_moe")
    stem = "model.layers.1.mlp"
    shared = {
        name.replace("shared_expert.", ""): tensor
        for name, tensor in model.tensors.items()
        if name.startswith(f"{stem}.shared_expert.")
    }
    for name in [name for name in model.tensors if name.startswith(stem)]:
        del model.tensors[name]
    model.tensors |= shared
    tensors = read_header(model.write(tmp_path / "m")).tensors
    assert "blk.1.ffn_gate.weight" in tensors
    assert "blk.1.ffn_gate_inp.weight" not in tensors
    assert "blk.2.ffn_gate_inp_shexp.weight" in tensors


def test_b12_norm_is_a_key_only_where_it_differs(tmp_path: Path) -> None:
    model = published("qwen2_moe")
    model.config["norm_topk_prob"] = True
    metadata = read_header(model.write(tmp_path / "m")).metadata
    assert metadata["qwen2moe.expert_weights_norm"] is True


@pytest.mark.parametrize(
    ("key", "value"), [("use_sliding_window", True), ("hidden_act", "gelu")]
)
def test_what_is_not_supported_is_refused(
    key: str, value: object, tmp_path: Path
) -> None:
    model = published("qwen2_moe")
    model.config[key] = value
    with pytest.raises(UnsupportedModel, match=f"key '{key}'"):
        read_header(model.write(tmp_path / "m"))
    assert qwen2_moe.ARCHITECTURE == "qwen2moe"
