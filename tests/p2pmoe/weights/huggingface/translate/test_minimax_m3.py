"""MiniMax-M3: as transformers saves it, and as the hub has it among pictures."""

from pathlib import Path

import numpy as np
import pytest

from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.huggingface.translate import minimax_m3
from p2pmoe.weights.model_file import open_model, read_header
from tests.support.safetensors_folder import (
    Published,
    assert_same_model,
    f32,
    published,
)


def split(model: Published, name: str, stem: str) -> None:
    both = model.tensors.pop(name).floats
    half = len(both) // 2
    model.tensors[f"{stem}.gate_proj.weight"] = f32(both[:half])
    model.tensors[f"{stem}.up_proj.weight"] = f32(both[half:])


def as_on_the_hub() -> Published:
    model = published("minimax_m3")
    for layer in (1, 2):
        mlp = f"model.layers.{layer}.mlp"
        moe = f"model.layers.{layer}.block_sparse_moe"
        both = model.tensors.pop(f"{mlp}.experts.gate_up_proj").floats
        down = model.tensors.pop(f"{mlp}.experts.down_proj").floats
        for expert in range(8):
            stem = f"{moe}.experts.{expert}"
            model.tensors[f"{stem}.w1.weight"] = f32(both[expert, :32])
            model.tensors[f"{stem}.w3.weight"] = f32(both[expert, 32:])
            model.tensors[f"{stem}.w2.weight"] = f32(down[expert])
        shared = f"{mlp}.shared_experts.gate_up_proj.weight"
        split(model, shared, f"{moe}.shared_experts")
        bias = model.tensors.pop(f"{mlp}.gate.e_score_correction_bias")
        model.tensors[f"{moe}.e_score_correction_bias"] = bias
    split(model, "model.layers.0.mlp.gate_up_proj.weight", "model.layers.0.mlp")
    for layer in (1, 2):
        model.rename(f"layers.{layer}.mlp.", f"layers.{layer}.block_sparse_moe.")
    model.rename(".indexer.", ".index_")
    model.tensors = {
        f"language_model.{name}": tensor for name, tensor in model.tensors.items()
    }
    for name in (
        "vision_tower.x",
        "multi_modal_projector.y",
        "patch_merge_mlp.z",
        "mtp.a",
    ):
        model.tensors[f"{name}.weight"] = f32([1.0])
    text = model.config
    sparse = {
        "sparse_num_index_heads": text.pop("index_n_heads"),
        "sparse_index_dim": text.pop("index_head_dim"),
        "sparse_topk_blocks": text.pop("index_topk_blocks"),
        "sparse_block_size": text.pop("index_block_size"),
        "sparse_local_block": text.pop("index_local_blocks"),
        "sparse_attention_freq": [0, 1, 1],
        "use_sparse_attention": True,
        "sparse_score_type": "max",
        "sparse_init_block": 0,
    }
    for key in ("architectures", "mlp_layer_types", "layer_types", "rope_parameters"):
        del text[key]
    text |= {
        "sparse_attention_config": sparse,
        "moe_layer_freq": [0, 1, 1],
        "rope_theta": 10000.0,
        "n_shared_experts": 1,
        "hidden_act": "swigluoai",
        "use_gemma_norm": True,
        "attention_output_gate": False,
        "qk_norm_type": "per_head",
    }
    model.config = {
        "architectures": ["MiniMaxM3SparseForConditionalGeneration"],
        "model_type": "minimax_m3_vl",
        "text_config": text,
        "vision_config": {"hidden_size": 1280},
    }
    return model


def test_the_hubs_names_are_the_same_model(tmp_path: Path) -> None:
    assert_same_model(as_on_the_hub().write(tmp_path / "m", n_files=3), "minimax_m3")


def test_norms_get_one_added(tmp_path: Path) -> None:
    model = published("minimax_m3")
    name = "model.layers.2.self_attn.indexer.q_norm.weight"
    stored = model.tensors[name].floats
    with open_model(model.write(tmp_path / "m")) as view:
        raw = view.read("blk.2.indexer.q_norm.weight")
    assert raw == (stored + np.float32(1)).tobytes()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("swiglu_alpha", 1.5),
        ("swiglu_limit", 10.0),
        ("hidden_act", "gelu"),
        ("use_gemma_norm", False),
        ("attention_output_gate", True),
        ("mlp_layer_types", ["sparse", "dense", "sparse"]),
    ],
)
def test_what_is_not_supported_is_refused(
    key: str, value: object, tmp_path: Path
) -> None:
    model = published("minimax_m3")
    model.config[key] = value
    with pytest.raises(UnsupportedModel, match=f"key '{key}'"):
        read_header(model.write(tmp_path / "m"))
    assert minimax_m3.ARCHITECTURE == "minimax-m3"
