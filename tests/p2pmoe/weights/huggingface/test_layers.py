"""Layouts of experts and feed-forwards that differ in files give one view (B05)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.huggingface.layers import (
    add_attention,
    add_experts,
    add_feed_forward,
    add_linear,
    add_output,
    set_aside_next_blocks,
)
from p2pmoe.weights.huggingface.quantization import Quantization, QuantizationMethod
from p2pmoe.weights.huggingface.safetensors import read_safetensors
from p2pmoe.weights.huggingface.stored_views import PlacedTensor
from p2pmoe.weights.huggingface.tensor_table import TensorTable
from p2pmoe.weights.huggingface.views import ShapeMismatch
from tests.support.safetensors_folder import f32, safetensors_bytes

RNG = np.random.default_rng(11)
GATE, UP = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
DOWN = RNG.standard_normal((3, 5, 4)).astype(np.float32)
NONE = Quantization(method=QuantizationMethod.NONE)


def table_of(folder: Path, arrays: dict[str, Any]) -> TensorTable:
    path = folder / "model.safetensors"
    path.write_bytes(safetensors_bytes({n: f32(a) for n, a in arrays.items()}))
    file = OpenFile(path)
    stored = read_safetensors(file).tensors.items()
    placed = {name: PlacedTensor(file, tensor) for name, tensor in stored}
    return TensorTable(folder, placed, NONE)


def values(table: TensorTable, name: str) -> Any:
    view = table.tensors[name]
    out = np.empty((view.rows.n_rows, view.rows.n_items), np.float32)
    view.rows.fill(0, out)
    return out.reshape(view.shape)


def one_by_one(gate: str, up: str, down: str) -> dict[str, Any]:
    return {
        f"m.experts.{e}.{word}.weight": stack[e]
        for word, stack in ((gate, GATE), (up, UP), (down, DOWN))
        for e in range(3)
    }


LAYOUTS = {
    "one_by_one": one_by_one("gate_proj", "up_proj", "down_proj"),
    "mixtral": one_by_one("w1", "w3", "w2"),
    "stacked": {
        "m.experts.gate_up_proj": np.concatenate([GATE, UP], axis=1),
        "m.experts.down_proj": DOWN,
    },
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_b05_experts_of_any_layout_are_one_stack(layout: str, tmp_path: Path) -> None:
    table = table_of(tmp_path, LAYOUTS[layout])
    add_experts(table, 7, "m", 3)
    assert (values(table, "blk.7.ffn_gate_exps.weight") == GATE).all()
    assert (values(table, "blk.7.ffn_up_exps.weight") == UP).all()
    assert (values(table, "blk.7.ffn_down_exps.weight") == DOWN).all()
    table.finish("olmoe")


def test_b05_a_missing_expert_is_named(tmp_path: Path) -> None:
    arrays = LAYOUTS["one_by_one"].copy()
    del arrays["m.experts.1.up_proj.weight"]
    with pytest.raises(
        ModelFileError, match=r"'m.experts.1.up_proj.weight': is missing"
    ):
        add_experts(table_of(tmp_path, arrays), 0, "m", 3)


def test_b05_unequal_experts_are_refused(tmp_path: Path) -> None:
    arrays = {**LAYOUTS["one_by_one"], "m.experts.1.up_proj.weight": GATE[0].T}
    with pytest.raises(ShapeMismatch, match=r"F32 \[5, 4\] beside F32 \[4, 5\]"):
        add_experts(table_of(tmp_path, arrays), 0, "m", 3)


@pytest.mark.parametrize("suffix", ["", "_shexp"])
@pytest.mark.parametrize("is_fused", [False, True])
def test_a_feed_forward_fused_or_not(
    suffix: str, is_fused: bool, tmp_path: Path
) -> None:
    arrays = {"m.gate_proj.weight": GATE[0], "m.up_proj.weight": UP[0]}
    if is_fused:
        arrays = {"m.gate_up_proj.weight": np.concatenate([GATE[0], UP[0]])}
    table = table_of(tmp_path, {**arrays, "m.down_proj.weight": DOWN[0]})
    add_feed_forward(table, 2, "m", suffix=suffix)
    for word, expected in (("gate", GATE), ("up", UP), ("down", DOWN)):
        assert (values(table, f"blk.2.ffn_{word}{suffix}.weight") == expected[0]).all()
    table.finish("olmoe")


def test_biases_and_norms_are_copied_where_there_are_such(tmp_path: Path) -> None:
    stem = "model.layers.0.self_attn"
    arrays: dict[str, Any] = {
        f"{stem}.{word}_proj.weight": np.ones((2, 2)) for word in "qkvo"
    }
    arrays |= {f"{stem}.q_proj.bias": np.ones(2), f"{stem}.k_norm.weight": np.ones(2)}
    table = table_of(tmp_path, {**arrays, "x.weight": [1.0], "x.bias": [2.0]})
    add_attention(table, 0)
    add_linear(table, "y", "x")
    assert table.tensors.keys() == {
        "blk.0.attn_q.weight",
        "blk.0.attn_q.bias",
        "blk.0.attn_k.weight",
        "blk.0.attn_v.weight",
        "blk.0.attn_output.weight",
        "blk.0.attn_k_norm.weight",
        "y.weight",
        "y.bias",
    }


@pytest.mark.parametrize("is_tied", [False, True])
def test_a_tied_head_is_the_embedding(is_tied: bool, tmp_path: Path) -> None:
    arrays = {
        name: np.ones((2, 2))
        for name in ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")
    }
    table = table_of(tmp_path, arrays)
    add_output(table, is_tied=is_tied)
    assert ("output.weight" in table.tensors) is not is_tied
    table.finish("olmoe")


def test_next_token_blocks_are_left_out(tmp_path: Path) -> None:
    names = ("model.layers.3.x.weight", "model.layers.30.x.weight")
    table = table_of(tmp_path, {name: [1.0] for name in names})
    set_aside_next_blocks(table, 3, 1)
    with pytest.raises(ModelFileError, match=r"1 tensors .*: model.layers.30.x.weight"):
        table.finish("olmoe")
