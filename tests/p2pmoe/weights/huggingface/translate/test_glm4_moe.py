"""GLM-4-MoE: trailing layers are left out; the older configuration says the same."""

from pathlib import Path

import pytest

from p2pmoe.weights.errors import UnsupportedModel
from p2pmoe.weights.huggingface.translate import glm4_moe
from p2pmoe.weights.model_file import read_header
from tests.support.safetensors_folder import assert_same_model, f32, published


def test_layers_that_predict_further_tokens_are_left_out(tmp_path: Path) -> None:
    model = published("glm4_moe")
    for name in (
        "eh_proj.weight",
        "self_attn.q_proj.weight",
        "shared_head.head.weight",
    ):
        model.tensors[f"model.layers.3.{name}"] = f32([[1.0]])
    assert_same_model(model.write(tmp_path / "m"), "glm4_moe")
    model.tensors["model.layers.4.eh_proj.weight"] = f32([[1.0]])
    with pytest.raises(UnsupportedModel, match=r"1 tensors have .*layers.4.eh_proj"):
        read_header(model.write(tmp_path / "m"))


def test_an_older_configuration_is_the_same_model(tmp_path: Path) -> None:
    model = published("glm4_moe")
    del model.config["rope_parameters"]
    model.config |= {"rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    assert_same_model(model.write(tmp_path / "m"), "glm4_moe")


def test_half_of_a_head_turns_if_nothing_is_said(tmp_path: Path) -> None:
    model = published("glm4_moe")
    del model.config["rope_parameters"]["partial_rotary_factor"]
    metadata = read_header(model.write(tmp_path / "m")).metadata
    assert metadata["glm4moe.rope.dimension_count"] == 16
    assert glm4_moe.ARCHITECTURE == "glm4moe"
