"""OLMoE: both layouts of its experts; flags that differ from the default are keys."""

from pathlib import Path

from p2pmoe.weights.huggingface.translate import olmoe
from p2pmoe.weights.model_file import read_header
from tests.support.safetensors_folder import assert_same_model, published

WORDS = ("gate_proj", "up_proj", "down_proj")


def test_the_newer_layout_is_the_same_model(tmp_path: Path) -> None:
    model = published("olmoe")
    for layer in range(3):
        stem = f"model.layers.{layer}.mlp"
        model.stack_experts(stem, WORDS, stem)
    assert_same_model(model.write(tmp_path / "m"), "olmoe")


def test_b12_flags_that_differ_from_the_default_are_keys(tmp_path: Path) -> None:
    model = published("olmoe")
    plain = read_header(model.write(tmp_path / "m")).metadata
    assert "olmoe.expert_weights_norm" not in plain
    model.config |= {"norm_topk_prob": True, "clip_qkv": 8}
    metadata = read_header(model.write(tmp_path / "m")).metadata
    assert metadata["olmoe.expert_weights_norm"] is True
    assert metadata["olmoe.attention.clamp_kqv"] == 8.0
    assert olmoe.NAMES == ("OlmoeForCausalLM",)
