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


def biases(seed: int, n: int) -> list[bytes]:
    return [random.Random(seed + e).randbytes(4 * n) for e in range(N_EXPERT)]


BIASES = [biases(300, N_FF), biases(400, N_FF), biases(500, N_EMBD)]
WORDS = ("ffn_gate", "ffn_up", "ffn_down")


def stacked_bias(word: str, part: list[bytes]) -> TensorBytes:
    shape = (N_EXPERT, len(part[0]) // 4)
    return tensor(f"{word}.bias", Format.F32, shape, b"".join(part))


def stacked_biases() -> list[TensorBytes]:
    return [
        stacked_bias(f"{word}_exps", part)
        for word, part in zip(WORDS, BIASES, strict=True)
    ]


def per_expert_biases() -> list[TensorBytes]:
    return [
        tensor(f"{word}.{e}.bias", Format.F32, (len(part[e]) // 4,), part[e])
        for word, part in zip(WORDS, BIASES, strict=True)
        for e in range(N_EXPERT)
    ]


def merged_biases() -> list[TensorBytes]:
    both = [a + b for a, b in zip(BIASES[0], BIASES[1], strict=True)]
    down = stacked_biases()[2]
    return [stacked_bias("ffn_gate_up_exps", both), down]


@pytest.mark.parametrize(
    ("form", "own"),
    [
        (stacked, stacked_biases),
        (per_expert, per_expert_biases),
        (merged, merged_biases),
        (merged, stacked_biases),
    ],
)
def test_b05_biases_follow_in_every_layout(tmp_path: Path, form, own) -> None:
    parts = three_matrices(MIXED)
    with opened(tmp_path, form(MIXED, parts) + own()) as model:
        assert expert_layers(model) == (LAYER,)
        for e in range(N_EXPERT):
            ranges = expert_ranges(model, ExpertId(LAYER, e))
            shard = b"".join(part[e] for part in [*parts, *BIASES])
            assert read_expert(model, ranges) == shard
            assert ranges.n_bytes == len(shard)
            assert len(ranges.parts) == 6


def test_b05_swapped_biases_follow_the_stated_order(tmp_path: Path) -> None:
    parts = three_matrices(SAME)
    swapped = [b + a for a, b in zip(BIASES[0], BIASES[1], strict=True)]
    tensors = [
        *merged(SAME, parts, "ffn_up_gate_exps", up_first=True),
        stacked_bias("ffn_up_gate_exps", swapped),
        stacked_biases()[2],
    ]
    with opened(tmp_path, tensors) as model:
        ranges = expert_ranges(model, ExpertId(LAYER, 2), half_order=HalfOrder.UP_FIRST)
        shard = b"".join(part[2] for part in [*parts, *BIASES])
        assert read_expert(model, ranges) == shard


@pytest.mark.parametrize(
    ("wrong", "error", "reason"),
    [
        (stacked_biases()[1:], ModelFileError, "has a bias, but none for gate"),
        (
            [
                tensor("ffn_up_exps.bias", Format.F16, (N_EXPERT, N_FF), bytes(4096)),
                *stacked_biases()[::2],
            ],
            UnsupportedModel,
            "'blk.1.ffn_up_exps.bias': biases of experts are F16, not F32",
        ),
        (
            [*stacked_biases()[:2], stacked_bias("ffn_down_exps", BIASES[0])],
            ModelFileError,
            r"biases of expert 1\.0 are \[512, 512, 512\], not \[512, 512, 256\]",
        ),
        (
            [
                *stacked_biases()[1:],
                tensor("ffn_gate_exps.bias", Format.F32, (N_FF,), bytes(2048)),
            ],
            ModelFileError,
            r"has shape \[512\], not \[4, 'values'\]",
        ),
        ([*stacked_biases(), *per_expert_biases()], ModelFileError, "are one"),
    ],
)
def test_biases_that_do_not_fit_are_refused(
    tmp_path: Path, wrong: list[TensorBytes], error: type[ModelFileError], reason: str
) -> None:
    with opened(tmp_path, stacked(SAME, three_matrices(SAME)) + wrong) as model:
        with pytest.raises(error, match=reason):
            expert_ranges(model, ExpertId(LAYER, 0))


def test_merged_biases_that_exist_twice_are_refused(tmp_path: Path) -> None:
    tensors = (
        merged(SAME, three_matrices(SAME)) + merged_biases() + stacked_biases()[:2]
    )
    with opened(tmp_path, tensors) as model:
        with pytest.raises(ModelFileError, match="twice"):
            expert_ranges(model, ExpertId(LAYER, 0))


def test_scales_of_experts_are_refused_by_name(tmp_path: Path) -> None:
    scale = tensor("ffn_up_exps.scale", Format.F32, (N_EXPERT,), bytes(16))
    with opened(tmp_path, [*stacked(SAME, three_matrices(SAME)), scale]) as model:
        with pytest.raises(UnsupportedModel, match=r"ffn_up_exps\.scale.*scales"):
            expert_layers(model)


def test_blocks_that_predict_further_tokens_have_no_experts_to_serve(
    tmp_path: Path,
) -> None:
    meta = {**META, "olmoe.nextn_predict_layers": 1}
    scale = tensor("ffn_up_exps.scale", Format.F32, (N_EXPERT,), bytes(16))
    tensors = [*stacked(SAME, three_matrices(SAME)), scale]
    with opened(tmp_path, tensors, meta) as model:
        assert expert_layers(model) == ()
