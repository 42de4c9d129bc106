"""Where the bytes of each routed expert lie, in all three layouts of model files.

Stacked, per expert, or gate and up merged (names.py); each with or without biases.

All byte arithmetic is in whole rows, so a slice never starts or ends within a block:
expert e of a stacked tensor starts at `e * rows * row_bytes`. The formats of gate, up
and down may differ, between layers and, where each has tensors of its own, between
experts of a layer. Biases are F32, and an expert has all three or none. Shapes are
checked to chain with the model's sizes before an offset is computed from them (fault
B05).
"""

from dataclasses import dataclass, replace
from enum import Enum, unique

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.expert_id import ExpertId
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.gguf import Tensor
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.model_header import ModelHeader
from p2pmoe.weights.names import (
    MERGED_NAMES,
    ExpertMatrix,
    block_of,
    expert_kind,
    layer_count,
    merged_name,
    model_size,
    single_name,
    stacked_name,
)

__all__ = [
    "BiasRange",
    "ExpertRanges",
    "HalfOrder",
    "MatrixRange",
    "distinct_ranges",
    "expert_layers",
    "expert_ranges",
    "layer_ranges",
    "read_expert",
]

# What tensors of experts may hold; scales of activations are not used here.
_KINDS = {"weight", "bias", "input_scale"}


@unique
class HalfOrder(Enum):
    """Which half of a merged gate-and-up tensor comes first in each expert."""

    GATE_FIRST = "gate-first"
    UP_FIRST = "up-first"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRange:
    """One expert's matrix [n_rows, n_cols] as a range of the file's bytes."""

    format: Format
    n_rows: int
    n_cols: int
    offset: int
    n_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BiasRange:
    """One matrix's bias, `n` F32 values, as a range of the file's bytes."""

    n: int
    offset: int

    @property
    def n_bytes(self) -> int:
        """Bytes of the range."""
        return 4 * self.n


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertRanges:
    """One expert: gate and up are [n_ff, n_embd], down is [n_embd, n_ff].

    `biases` are those of gate, up and down, or none.
    """

    gate: MatrixRange
    up: MatrixRange
    down: MatrixRange
    biases: tuple[BiasRange, ...] = ()

    @property
    def parts(self) -> tuple[tuple[int, int], ...]:
        """Ranges (offset, bytes) of the shard's parts, in order."""
        matrices = [(m.offset, m.n_bytes) for m in (self.gate, self.up, self.down)]
        return (*matrices, *((bias.offset, bias.n_bytes) for bias in self.biases))

    @property
    def n_bytes(self) -> int:
        """Bytes of the expert's shard."""
        return sum(n_bytes for _, n_bytes in self.parts)


def expert_layers(model: ModelHeader) -> tuple[int, ...]:
    """Return the layers that have routed experts, ascending.

    Raises:
        UnsupportedModel: Experts carry scales beside their matrices.
        ModelFileError: The model's sizes are missing or absurd.
    """
    n_layer = layer_count(model)
    layers: set[int] = set()
    for name in model.tensors:
        block = block_of(name)
        if block is None or block[0] >= n_layer:
            continue
        layer, ending = block
        kind = expert_kind(ending)
        if kind is None:
            continue
        if kind not in _KINDS:
            reason = "experts with scales of their own cannot be served"
            raise UnsupportedModel(model.path, reason, tensor=name)
        if kind == "weight" and ending.startswith("ffn_down"):
            layers.add(layer)
    return tuple(sorted(layers))


def expert_ranges(
    model: ModelHeader, expert: ExpertId, *, half_order: HalfOrder | None = None
) -> ExpertRanges:
    """Return where an expert's three matrices lie.

    `half_order` states the order of merged halves where the file's names do not.

    Raises:
        ModelFileError: No such expert, or shapes that do not chain.
        UnsupportedModel: Merged halves in an order that is not known.
    """
    n_expert = model_size(model, "expert_count")
    if expert.index >= n_expert:
        reason = f"there is no expert {expert}: a layer has {n_expert}"
        raise ModelFileError(model.path, reason)
    gate, up = _gate_and_up(model, expert, half_order)
    down = _matrix(model, expert, ExpertMatrix.DOWN)
    biases = _biases(model, expert, half_order)
    ranges = ExpertRanges(gate=gate, up=up, down=down, biases=biases)
    _check_chain(model, expert, ranges)
    return ranges


def layer_ranges(
    model: ModelHeader, layer: int, *, half_order: HalfOrder | None = None
) -> list[ExpertRanges]:
    """Return where each expert of a layer lies, by index; raises as `expert_ranges`."""
    indices = range(model_size(model, "expert_count"))
    return [
        expert_ranges(model, ExpertId(layer, index), half_order=half_order)
        for index in indices
    ]


def distinct_ranges(model: ModelHeader, layer: int) -> list[ExpertRanges]:
    """Return the ranges of the first expert where all of a layer are alike, else all.

    Alike in formats and sizes: their tensors are stacked. Raises as `expert_ranges`.
    """
    singles = (single_name(layer, matrix, 0) for matrix in ExpertMatrix)
    if any(name in model.tensors for name in singles):
        return layer_ranges(model, layer)
    return [expert_ranges(model, ExpertId(layer, 0))]


def read_expert(model: ModelFile, ranges: ExpertRanges) -> memoryview:
    """Return an expert's shard; raises as `ModelFile.load`."""
    return model.load_ranges(ranges.parts)


def _gate_and_up(
    model: ModelHeader, expert: ExpertId, half_order: HalfOrder | None
) -> tuple[MatrixRange, MatrixRange]:
    merged = _merged(model, expert.layer, half_order)
    if merged is None:
        gate = _matrix(model, expert, ExpertMatrix.GATE)
        return gate, _matrix(model, expert, ExpertMatrix.UP)
    whole = _slice(model, merged, expert.index)
    if whole.n_rows % 2:
        reason = f"{whole.n_rows} rows have no halves"
        raise ModelFileError(model.path, reason, tensor=merged.name)
    n_rows, n_bytes = whole.n_rows // 2, whole.n_bytes // 2
    first = replace(whole, n_rows=n_rows, n_bytes=n_bytes)
    second = replace(first, offset=whole.offset + n_bytes)
    return (second, first) if half_order is HalfOrder.UP_FIRST else (first, second)


def _merged(
    model: ModelHeader, layer: int, half_order: HalfOrder | None
) -> Tensor | None:
    """Return the layer's tensor of gate and up, whose halves are in a known order."""
    stems = [stem for stem in MERGED_NAMES if merged_name(layer, stem) in model.tensors]
    if not stems:
        return None
    name = merged_name(layer, stems[0])
    if len(stems) > 1 or stacked_name(layer, ExpertMatrix.UP) in model.tensors:
        raise ModelFileError(model.path, "gate and up exist twice", tensor=name)
    if half_order is None and not MERGED_NAMES[stems[0]]:
        reason = "it is not known which half is gate and which is up"
        raise UnsupportedModel(model.path, reason, tensor=name)
    return model.tensor(name)


def _biases(
    model: ModelHeader, expert: ExpertId, half_order: HalfOrder | None
) -> tuple[BiasRange, ...]:
    """Return the biases of gate, up and down; nothing if there are none."""
    found = [_bias(model, expert, matrix) for matrix in ExpertMatrix]
    merged = _merged(model, expert.layer, half_order)
    name = "" if merged is None else merged.name.removesuffix("weight") + "bias"
    if name in model.tensors:
        whole = _bias_slice(model, model.tensor(name), expert.index)
        first = BiasRange(n=whole.n // 2, offset=whole.offset)
        second = replace(first, offset=whole.offset + first.n_bytes)
        halves = [first, second]
        if whole.n % 2 or found[0] or found[1]:
            raise ModelFileError(model.path, "has no halves, or twice", tensor=name)
        found[:2] = halves[::-1] if half_order is HalfOrder.UP_FIRST else halves
    biases = tuple(bias for bias in found if bias is not None)
    if biases and len(biases) < len(found):
        missing = list(ExpertMatrix)[found.index(None)].value
        reason = f"expert {expert} has a bias, but none for {missing}"
        raise ModelFileError(model.path, reason)
    return biases


def _bias(
    model: ModelHeader, expert: ExpertId, matrix: ExpertMatrix
) -> BiasRange | None:
    stacked = stacked_name(expert.layer, matrix, "bias")
    single = single_name(expert.layer, matrix, expert.index, "bias")
    if stacked in model.tensors and single in model.tensors:
        raise ModelFileError(model.path, f"and {stacked!r} are one", tensor=single)
    if single in model.tensors:
        return _bias_slice(model, model.tensor(single), None)
    if stacked in model.tensors:
        return _bias_slice(model, model.tensor(stacked), expert.index)
    return None


def _bias_slice(model: ModelHeader, tensor: Tensor, index: int | None) -> BiasRange:
    """Return one expert's part of a bias tensor, or, without `index`, all of it."""
    if tensor.format is not Format.F32:
        reason = f"biases of experts are {tensor.format.name}, not F32"
        raise UnsupportedModel(model.path, reason, tensor=tensor.name)
    n_expert = model_size(model, "expert_count")
    lead = () if index is None else (n_expert,)
    if len(tensor.shape) != len(lead) + 1 or tensor.shape[:-1] != lead:
        wanted = [*lead, "values"]
        reason = f"has shape {list(tensor.shape)}, not {wanted}"
        raise ModelFileError(model.path, reason, tensor=tensor.name)
    n = tensor.n_cols
    return BiasRange(n=n, offset=tensor.offset + 4 * n * (index or 0))


def _matrix(model: ModelHeader, expert: ExpertId, matrix: ExpertMatrix) -> MatrixRange:
    stacked = stacked_name(expert.layer, matrix)
    single = single_name(expert.layer, matrix, expert.index)
    if stacked in model.tensors and single in model.tensors:
        raise ModelFileError(model.path, f"and {stacked!r} are one", tensor=single)
    if single not in model.tensors:
        return _slice(model, model.tensor(stacked), expert.index)
    tensor = model.tensor(single)
    if len(tensor.shape) != 2:
        raise ModelFileError(model.path, f"has shape {tensor.shape}", tensor=single)
    return MatrixRange(
        format=tensor.format,
        n_rows=tensor.shape[0],
        n_cols=tensor.n_cols,
        offset=tensor.offset,
        n_bytes=tensor.n_bytes,
    )


def _slice(model: ModelHeader, tensor: Tensor, index: int) -> MatrixRange:
    n_expert = model_size(model, "expert_count")
    if len(tensor.shape) != 3 or tensor.shape[0] != n_expert:
        reason = f"has shape {tensor.shape}, not [{n_expert}, rows, columns]"
        raise ModelFileError(model.path, reason, tensor=tensor.name)
    n_rows = tensor.shape[1]
    n_bytes = n_rows * tensor.row_bytes
    return MatrixRange(
        format=tensor.format,
        n_rows=n_rows,
        n_cols=tensor.n_cols,
        offset=tensor.offset + index * n_bytes,
        n_bytes=n_bytes,
    )


def _check_chain(model: ModelHeader, expert: ExpertId, ranges: ExpertRanges) -> None:
    n_embd = model_size(model, "embedding_length")
    n_ff = ranges.gate.n_rows
    shapes = {
        "gate": (ranges.gate, n_ff, n_embd),
        "up": (ranges.up, n_ff, n_embd),
        "down": (ranges.down, n_embd, n_ff),
    }
    for word, (part, n_rows, n_cols) in shapes.items():
        if (part.n_rows, part.n_cols) != (n_rows, n_cols):
            reason = (
                f"{word} of expert {expert} is {part.n_rows} x {part.n_cols}, "
                f"not {n_rows} x {n_cols}"
            )
            raise ModelFileError(model.path, reason)
    if ranges.biases and [bias.n for bias in ranges.biases] != [n_ff, n_ff, n_embd]:
        found = [bias.n for bias in ranges.biases]
        reason = f"biases of expert {expert} are {found}, not {[n_ff, n_ff, n_embd]}"
        raise ModelFileError(model.path, reason)
