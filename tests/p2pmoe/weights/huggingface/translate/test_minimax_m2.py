"""MiniMax-M2: both sets of names; linear attention is refused."""

from pathlib import Path

import pytest

from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.huggingface.translate import minimax_m2
from p2pmoe.weights.model_file import read_header
from tests.support.safetensors_folder import assert_same_model, published


def test_the_newer_names_are_the_same_model(tmp_path: Path) -> None:
    model = published("minimax_m2")
    for layer in range(3):
        stem = f"model.layers.{layer}"
        words = ("w1", "w3", "w2")
        model.stack_experts(f"{stem}.block_sparse_moe", words, f"{stem}.mlp")
    model.rename(".block_sparse_moe.", ".mlp.")
    assert_same_model(model.write(tmp_path / "m"), "minimax_m2")


def test_as_the_hub_has_its_configuration(tmp_path: Path) -> None:
    model = published("minimax_m2")
    del model.config["rope_parameters"]
    model.config |= {
        "rope_theta": 5000000,
        "attn_type_list": [1, 1, 1],
        "qk_norm_type": "per_layer",
        "use_mtp": True,
        "num_mtp_modules": 3,
    }
    assert_same_model(model.write(tmp_path / "m"), "minimax_m2")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("attn_type_list", [1, 0, 1]),
        ("scoring_func", "softmax"),
        ("qk_norm_type", "per_head"),
    ],
)
def test_what_is_not_supported_is_refused(
    key: str, value: object, tmp_path: Path
) -> None:
    model = published("minimax_m2")
    model.config[key] = value
    with pytest.raises(UnsupportedModel, match=f"key '{key}'"):
        read_header(model.write(tmp_path / "m"))
    assert minimax_m2.NAMES == ("MiniMaxM2ForCausalLM",)
