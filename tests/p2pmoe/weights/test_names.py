from pathlib import Path

import pytest

from mobile_worker.arithmetic.activation import ActivationKind
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.model_file import ModelFile, open_model
from p2pmoe.weights.names import (
    EXPERT_EXTRAS,
    ExpertMatrix,
    architecture,
    expert_activation,
    layer_count,
    merged_name,
    model_size,
    single_name,
    stacked_name,
)
from tests.support.gguf_writer import write_gguf


def model(tmp_path: Path, name: str) -> ModelFile:
    meta = {"general.architecture": name, f"{name}.expert_count": 8}
    return open_model(write_gguf(tmp_path / "m", meta))


def test_sizes_carry_the_architecture(tmp_path: Path) -> None:
    with model(tmp_path, "olmoe") as file:
        assert architecture(file) == "olmoe"
        assert model_size(file, "expert_count") == 8
        assert model_size(file, "absent", 3) == 3
        with pytest.raises(ModelFileError, match=r"olmoe\.absent"):
            model_size(file, "absent")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("minimax-m3", ActivationKind.SWIGLU_OAI),
        ("gpt-oss", ActivationKind.SWIGLU_OAI),
        ("qwen3moe", ActivationKind.SWIGLU),
    ],
)
def test_activation_by_architecture(
    tmp_path: Path, name: str, kind: ActivationKind
) -> None:
    with model(tmp_path, name) as file:
        assert expert_activation(file).kind is kind


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    with (
        model(tmp_path, "mamba") as file,
        pytest.raises(UnsupportedModel, match="mamba"),
    ):
        expert_activation(file)


def test_tensor_names() -> None:
    assert stacked_name(3, ExpertMatrix.GATE) == "blk.3.ffn_gate_exps.weight"
    assert single_name(3, ExpertMatrix.DOWN, 7) == "blk.3.ffn_down.7.weight"
    assert merged_name(3, "ffn_gate_up_exps") == "blk.3.ffn_gate_up_exps.weight"
    assert stacked_name(3, ExpertMatrix.UP, "bias") == "blk.3.ffn_up_exps.bias"


@pytest.mark.parametrize(
    ("keys", "n_layer"), [({}, 5), ({"x.nextn_predict_layers": 1}, 4)]
)
def test_layers_end_where_further_tokens_are_predicted(
    tmp_path: Path, keys: dict[str, int], n_layer: int
) -> None:
    meta = {"general.architecture": "x", "x.block_count": 5, **keys}
    with open_model(write_gguf(tmp_path / "m", meta)) as file:
        assert layer_count(file) == n_layer


@pytest.mark.parametrize(
    ("name", "extra"),
    [
        ("blk.1.ffn_gate_exps.weight", False),
        ("blk.1.ffn_gate_exps.bias", False),
        ("blk.1.ffn_down.3.bias", False),
        ("blk.1.ffn_down_exps.scale", True),
        ("blk.1.ffn_gate.7.scale", True),
        ("blk.1.ffn_gate.7.input_scale", False),
        ("blk.1.exp_probs_b.bias", False),
        ("blk.1.ffn_gate_inp.bias", False),
        ("blk.1.ffn_gate_shexp.weight", False),
    ],
)
def test_extras_of_experts(name: str, extra: bool) -> None:
    assert bool(EXPERT_EXTRAS.match(name)) is extra
