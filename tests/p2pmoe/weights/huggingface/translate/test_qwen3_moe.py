"""Qwen3-MoE: both layouts, dense layers, YaRN as its model card adds it."""

from pathlib import Path

import pytest

from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.huggingface.translate import qwen3_moe
from p2pmoe.weights.model_file import read_header
from tests.support.safetensors_folder import assert_same_model, published

WORDS = ("gate_proj", "up_proj", "down_proj")


def test_the_newer_layout_is_the_same_model(tmp_path: Path) -> None:
    model = published("qwen3_moe")
    for layer in range(3):
        stem = f"model.layers.{layer}.mlp"
        model.stack_experts(stem, WORDS, stem)
    model.config["num_experts"] = model.config.pop("num_local_experts")
    assert_same_model(model.write(tmp_path / "m"), "qwen3_moe")


def test_a_layer_without_a_router_is_dense(tmp_path: Path) -> None:
    model = published("qwen3_moe")
    stem = "model.layers.0.mlp"
    for word in WORDS:
        dense = model.tensors[f"{stem}.experts.0.{word}.weight"]
        model.tensors[f"{stem}.{word}.weight"] = dense
    for name in [
        n for n in model.tensors if n.startswith((f"{stem}.ex", f"{stem}.gate."))
    ]:
        del model.tensors[name]
    tensors = read_header(model.write(tmp_path / "m")).tensors
    assert "blk.0.ffn_down.weight" in tensors
    assert "blk.0.ffn_down_exps.weight" not in tensors


def test_yarn_of_the_older_configuration(tmp_path: Path) -> None:
    model = published("qwen3_moe")
    del model.config["rope_parameters"]
    model.config |= {
        "rope_theta": 10000.0,
        "rope_scaling": {
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 128,
        },
    }
    metadata = read_header(model.write(tmp_path / "m")).metadata
    assert metadata["qwen3moe.rope.scaling.type"] == "yarn"
    assert metadata["qwen3moe.rope.scaling.original_context_length"] == 128


def test_b12_norm_is_a_key_only_where_it_differs(tmp_path: Path) -> None:
    model = published("qwen3_moe")
    model.config["norm_topk_prob"] = False
    metadata = read_header(model.write(tmp_path / "m")).metadata
    assert metadata["qwen3moe.expert_weights_norm"] is False
    del model.config["norm_topk_prob"]  # the publisher's code does not norm then
    metadata = read_header(model.write(tmp_path / "n")).metadata
    assert metadata["qwen3moe.expert_weights_norm"] is False


def test_a_window_is_refused(tmp_path: Path) -> None:
    model = published("qwen3_moe")
    model.config["use_sliding_window"] = True
    with pytest.raises(UnsupportedModel, match="key 'use_sliding_window'"):
        read_header(model.write(tmp_path / "m"))
    assert qwen3_moe.NAMES == ("Qwen3MoeForCausalLM",)
