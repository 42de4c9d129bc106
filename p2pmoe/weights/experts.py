"""Where the bytes of each routed expert lie, in all three layouts of model files.

All byte arithmetic is in whole rows, so a slice never starts or ends within a block:
expert e of a stacked tensor starts at `e * rows * row_bytes`. The formats of gate, up
and down may differ, and may differ between layers. Shapes are checked to chain with
the model's sizes before an offset is computed from them (fault B05).
"""

from dataclasses import dataclass
from enum import Enum, unique

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.expert_id import ExpertId
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.gguf import Tensor
from p2pmoe.weights.model_file import ModelFile
from p2pmoe.weights.model_header import ModelHeader
from p2pmoe.weights.names import (
    EXPERT_EXTRAS,
    MERGED_NAMES,
    ExpertMatrix,
    merged_name,
    model_size,
    single_name,
    stacked_name,
)

__all__ = [
    "ExpertRanges",
    "HalfOrder",
    "MatrixRange",
    "expert_layers",
    "expert_ranges",
    "read_expert",
]


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
class ExpertRanges:
    """One expert: gate and up are [n_ff, n_embd], down is [n_embd, n_ff]."""

    gate: MatrixRange
    up: MatrixRange
    down: MatrixRange

    @property
    def n_bytes(self) -> int:
        """Bytes of the expert's shard."""
        return self.gate.n_bytes + self.up.n_bytes + self.down.n_bytes


def expert_layers(model: ModelHeader) -> tuple[int, ...]:
    """Return the layers that have routed experts, ascending.

    Raises:
        UnsupportedModel: Experts carry biases or scales beside their matrices.
        ModelFileError: The model's sizes are missing or absurd.
    """
    for name in model.tensors:
        if EXPERT_EXTRAS.match(name):
            reason = "experts with biases or scales cannot be served yet"
            raise UnsupportedModel(model.path, reason, tensor=name)
    downs = (
        (
            stacked_name(layer, ExpertMatrix.DOWN),
            single_name(layer, ExpertMatrix.DOWN, 0),
        )
        for layer in range(model_size(model, "block_count"))
    )
    return tuple(
        layer
        for layer, names in enumerate(downs)
        if any(name in model.tensors for name in names)
    )


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
    ranges = ExpertRanges(gate=gate, up=up, down=down)
    _check_chain(model, expert, ranges)
    return ranges


def read_expert(model: ModelFile, ranges: ExpertRanges) -> memoryview:
    """Return an expert's shard, gate || up || down; raises as `ModelFile.load`."""
    parts = (ranges.gate, ranges.up, ranges.down)
    return model.load_ranges([(part.offset, part.n_bytes) for part in parts])


def _gate_and_up(
    model: ModelHeader, expert: ExpertId, half_order: HalfOrder | None
) -> tuple[MatrixRange, MatrixRange]:
    merged = [
        stem
        for stem in MERGED_NAMES
        if merged_name(expert.layer, stem) in model.tensors
    ]
    if not merged:
        gate = _matrix(model, expert, ExpertMatrix.GATE)
        return gate, _matrix(model, expert, ExpertMatrix.UP)
    stem, name = merged[0], merged_name(expert.layer, merged[0])
    if len(merged) > 1 or stacked_name(expert.layer, ExpertMatrix.UP) in model.tensors:
        raise ModelFileError(model.path, "gate and up exist twice", tensor=name)
    if half_order is None and not MERGED_NAMES[stem]:
        reason = "it is not known which half is gate and which is up"
        raise UnsupportedModel(model.path, reason, tensor=name)
    whole = _slice(model, model.tensor(name), expert.index)
    if whole.n_rows % 2:
        reason = f"{whole.n_rows} rows have no halves"
        raise ModelFileError(model.path, reason, tensor=name)
    first, second = _halves(whole)
    return (second, first) if half_order is HalfOrder.UP_FIRST else (first, second)


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


def _halves(whole: MatrixRange) -> tuple[MatrixRange, MatrixRange]:
    n_rows, n_bytes = whole.n_rows // 2, whole.n_bytes // 2
    first, second = (
        MatrixRange(
            format=whole.format,
            n_rows=n_rows,
            n_cols=whole.n_cols,
            offset=whole.offset + half * n_bytes,
            n_bytes=n_bytes,
        )
        for half in (0, 1)
    )
    return first, second


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
