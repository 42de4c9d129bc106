"""Fault B05: one model in three layouts gives the same bytes for every expert."""

import random
from pathlib import Path

import pytest

from mobile_worker.arithmetic.formats.block_format import Format, block_size
from mobile_worker.expert_id import ExpertId
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.experts import (
    HalfOrder,
    expert_layers,
    expert_ranges,
    read_expert,
)
from p2pmoe.weights.model_file import ModelFile, open_model
from tests.support.gguf_writer import TensorBytes, write_gguf

N_EMBD, N_FF, N_EXPERT, LAYER = 256, 512, 4, 1
META = {
    "general.architecture": "olmoe",
    "olmoe.block_count": 2,
    "olmoe.expert_count": N_EXPERT,
    "olmoe.embedding_length": N_EMBD,
}


def matrix(kind: Format, n_rows: int, n_cols: int, seed: int) -> bytes:
    values, size = block_size(kind)
    return random.Random(seed).randbytes(n_rows * n_cols // values * size)


def three_matrices(formats: tuple[Format, Format, Format]) -> list[list[bytes]]:
    gate, up, down = formats
    return [
        [matrix(gate, N_FF, N_EMBD, e) for e in range(N_EXPERT)],
        [matrix(up, N_FF, N_EMBD, 100 + e) for e in range(N_EXPERT)],
        [matrix(down, N_EMBD, N_FF, 200 + e) for e in range(N_EXPERT)],
    ]


def tensor(name: str, kind: Format, shape: tuple[int, ...], raw: bytes) -> TensorBytes:
    return TensorBytes(name=f"blk.{LAYER}.{name}", type=kind, shape=shape, content=raw)


def stacked(kinds: tuple[Format, ...], parts: list[list[bytes]]) -> list[TensorBytes]:
    shapes = [(N_EXPERT, N_FF, N_EMBD)] * 2 + [(N_EXPERT, N_EMBD, N_FF)]
    names = ("ffn_gate_exps", "ffn_up_exps", "ffn_down_exps")
    return [
        tensor(f"{name}.weight", kind, shape, b"".join(part))
        for name, kind, shape, part in zip(names, kinds, shapes, parts, strict=True)
    ]


def per_expert(
    kinds: tuple[Format, ...], parts: list[list[bytes]]
) -> list[TensorBytes]:
    shapes = [(N_FF, N_EMBD)] * 2 + [(N_EMBD, N_FF)]
    return [
        tensor(f"{name}.{e}.weight", kind, shape, part[e])
        for name, kind, shape, part in zip(
            ("ffn_gate", "ffn_up", "ffn_down"), kinds, shapes, parts, strict=True
        )
        for e in range(N_EXPERT)
    ]


def merged(
    kinds: tuple[Format, ...],
    parts: list[list[bytes]],
    name: str = "ffn_gate_up_exps",
    *,
    up_first: bool = False,
) -> list[TensorBytes]:
    first, second = (parts[1], parts[0]) if up_first else (parts[0], parts[1])
    both = b"".join(a + b for a, b in zip(first, second, strict=True))
    shape = (N_EXPERT, 2 * N_FF, N_EMBD)
    down = stacked(kinds, parts)[2]
    return [tensor(f"{name}.weight", kinds[0], shape, both), down]


def opened(
    tmp_path: Path, tensors: list[TensorBytes], meta: dict[str, object] | None = None
) -> ModelFile:
    return open_model(write_gguf(tmp_path / "m.gguf", meta or META, tensors))


SAME = (Format.Q4_K, Format.Q4_K, Format.Q4_K)
MIXED = (Format.Q4_K, Format.Q4_K, Format.Q6_K)


@pytest.mark.parametrize("kinds", [SAME, MIXED], ids=["same", "mixed"])
@pytest.mark.parametrize("form", [stacked, per_expert, merged])
def test_b05_three_layouts_give_the_same_shards(tmp_path, kinds, form) -> None:
    parts = three_matrices(kinds)
    with opened(tmp_path, form(kinds, parts)) as model:
        assert expert_layers(model) == (LAYER,)
        for e in range(N_EXPERT):
            ranges = expert_ranges(model, ExpertId(LAYER, e))
            assert read_expert(model, ranges) == parts[0][e] + parts[1][e] + parts[2][e]
            assert (ranges.gate.format, ranges.down.format) == (kinds[0], kinds[2])
            assert (ranges.gate.n_rows, ranges.gate.n_cols) == (N_FF, N_EMBD)
            assert (ranges.down.n_rows, ranges.down.n_cols) == (N_EMBD, N_FF)


def test_b05_a_stated_half_order_is_followed(tmp_path: Path) -> None:
    parts = three_matrices(SAME)
    tensors = merged(SAME, parts, "ffn_up_gate_exps", up_first=True)
    with opened(tmp_path, tensors) as model:
        ranges = expert_ranges(model, ExpertId(LAYER, 2), half_order=HalfOrder.UP_FIRST)
        assert read_expert(model, ranges) == parts[0][2] + parts[1][2] + parts[2][2]


def test_b05_an_unknown_half_order_is_refused(tmp_path: Path) -> None:
    tensors = merged(SAME, three_matrices(SAME), "ffn_up_gate_exps")
    with opened(tmp_path, tensors) as model:
        with pytest.raises(UnsupportedModel, match="which half"):
            expert_ranges(model, ExpertId(LAYER, 0))


def test_b05_sizes_of_a_large_q4_k_expert(tmp_path: Path) -> None:
    values, size = block_size(Format.Q4_K)
    assert 4096 // values * size == 2304
    assert 14336 * 2304 == 33_030_144
    # The file is sparse: 2 experts of 3 x 33 MB take no room on disk.
    meta = {
        **META,
        "olmoe.expert_count": 2,
        "olmoe.embedding_length": 4096,
    }
    shapes = {
        "gate": (2, 14336, 4096),
        "up": (2, 14336, 4096),
        "down": (2, 4096, 14336),
    }
    tensors = [
        TensorBytes(
            name=f"blk.1.ffn_{word}_exps.weight",
            type=Format.Q4_K,
            shape=shape,
            content=b"",
            offset=place * 2 * 33_030_144,
        )
        for place, (word, shape) in enumerate(shapes.items())
    ]
    path = write_gguf(tmp_path / "m", meta, tensors)
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size + 6 * 33_030_144)
    with open_model(path) as model:
        ranges = expert_ranges(model, ExpertId(1, 1))
        assert ranges.up.n_bytes == 33_030_144
        assert ranges.up.offset - model.tensors["blk.1.ffn_up_exps.weight"].offset == (
            33_030_144
        )


def test_b05_an_index_past_the_last_expert_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, stacked(SAME, three_matrices(SAME))) as model:
        with pytest.raises(ModelFileError, match=r"no expert 1\.4: a layer has 4"):
            expert_ranges(model, ExpertId(LAYER, N_EXPERT))


def test_a_layer_without_experts_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path, stacked(SAME, three_matrices(SAME))) as model:
        with pytest.raises(ModelFileError, match="is missing"):
            expert_ranges(model, ExpertId(0, 0))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"olmoe.expert_count": 3}, r"not \[3, rows, columns\]"),
        ({"olmoe.embedding_length": 128}, "not 512 x 128"),
    ],
)
def test_shapes_that_do_not_fit_the_sizes_are_refused(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    tensors = stacked(SAME, three_matrices(SAME))
    with opened(tmp_path, tensors, {**META, **change}) as model:
        with pytest.raises(ModelFileError, match=message):
            expert_ranges(model, ExpertId(LAYER, 0))


def test_two_layouts_at_once_are_refused(tmp_path: Path) -> None:
    parts = three_matrices(SAME)
    both = stacked(SAME, parts) + per_expert(SAME, parts)
    with (
        opened(tmp_path, both) as model,
        pytest.raises(ModelFileError, match="are one"),
    ):
        expert_ranges(model, ExpertId(LAYER, 0))
    twice = stacked(SAME, parts) + merged(SAME, parts)[:1]
    with opened(tmp_path, twice) as model, pytest.raises(ModelFileError, match="twice"):
        expert_ranges(model, ExpertId(LAYER, 0))


def test_biases_of_experts_are_refused(tmp_path: Path) -> None:
    bias = tensor("ffn_up_exps.bias", Format.F32, (N_EXPERT, N_FF), bytes(8192))
    tensors = [*stacked(SAME, three_matrices(SAME)), bias]
    with (
        opened(tmp_path, tensors) as model,
        pytest.raises(UnsupportedModel, match="bias"),
    ):
        expert_layers(model)
