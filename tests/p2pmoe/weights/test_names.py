from pathlib import Path

import pytest

from mobile_worker.arithmetic.activation import ActivationKind
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.model_file import ModelFile, open_model
from p2pmoe.weights.names import (
    ExpertMatrix,
    architecture,
    block_of,
    expert_activation,
    expert_kind,
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
def test_layers_end_where_next_token_blocks_begin(
    tmp_path: Path, keys: dict[str, int], n_layer: int
) -> None:
    meta = {"general.architecture": "x", "x.block_count": 5, **keys}
    with open_model(write_gguf(tmp_path / "m", meta)) as file:
        assert layer_count(file) == n_layer


@pytest.mark.parametrize(
    ("key", "value"), [("nextn_predict_layers", 6), ("block_count", 1 << 30)]
)
def test_absurd_numbers_of_blocks_are_refused(
    tmp_path: Path, key: str, value: int
) -> None:
    meta = {"general.architecture": "x", "x.block_count": 5, f"x.{key}": value}
    with open_model(write_gguf(tmp_path / "m", meta)) as file:
        with pytest.raises(ModelFileError, match=key):
            layer_count(file)


def test_the_block_of_a_tensor() -> None:
    assert block_of("blk.12.attn_q.weight") == (12, "attn_q.weight")
    assert block_of("output.weight") is None
    assert block_of("blk.99999999999.attn_q.weight") is None


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        ("ffn_gate_exps.weight", "weight"),
        ("ffn_gate_exps.bias", "bias"),
        ("ffn_down.3.bias", "bias"),
        ("ffn_gate_up_exps.weight", "weight"),
        ("ffn_down_exps.scale", "scale"),
        ("ffn_gate.7.input_scale", "input_scale"),
        ("exp_probs_b.bias", None),
        ("ffn_gate_inp.bias", None),
        ("ffn_gate_shexp.weight", None),
        ("ffn_gate.weight", None),
    ],
)
def test_what_tensors_of_experts_hold(ending: str, kind: str | None) -> None:
    assert expert_kind(ending) == kind
