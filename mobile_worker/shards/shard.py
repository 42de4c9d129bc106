"""A shard's bytes as the weights of one expert.

A shard is gate || up || down, each in the model file's own block format, rows one
after the other, nothing before, between or after. Biased experts have gate bias || up
bias || down bias after that, F32, little-endian. The matrices are views of the bytes
handed in, which must not change afterwards; biases, which are short, are copied, so
that they lie aligned. No I/O.
"""

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import FormatUnsupported, MatrixMalformed
from mobile_worker.arithmetic.formats.block_format import Format, row_bytes
from mobile_worker.arithmetic.formats.check import check_matrix
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.expert_id import ExpertId
from mobile_worker.shards.errors import ShardError
from mobile_worker.shards.manifest import ExpertLayout

__all__ = [
    "ShardMisfit",
    "check_expert",
    "expert_weights",
    "matrix_bytes",
    "shard_bytes",
    "weights_of_parts",
]


class ShardMisfit(ShardError):
    """The bytes are not as long as the expert's layout says."""


def matrix_bytes(layout: ExpertLayout) -> tuple[int, int, int]:
    """Return the bytes of the gate, up and down matrix.

    Raises:
        FormatUnsupported: A format is unknown to this version's arithmetic.
        MatrixMalformed: A row is not a whole number of blocks.
    """
    gate = layout.n_ff * row_bytes(_format(layout.gate_format), layout.n_embd)
    up = layout.n_ff * row_bytes(_format(layout.up_format), layout.n_embd)
    down = layout.n_embd * row_bytes(_format(layout.down_format), layout.n_ff)
    return gate, up, down


def shard_bytes(layout: ExpertLayout) -> int:
    """Return the bytes of a whole shard; raises as `matrix_bytes`."""
    return sum(matrix_bytes(layout)) + sum(layout.bias_bytes)


def expert_weights(
    shard: bytes | bytearray | memoryview, layout: ExpertLayout
) -> ExpertWeights:
    """Return the expert whose bytes these are, as views into `shard`.

    Raises:
        ShardMisfit: `shard` is too short or too long for the layout.
        FormatUnsupported: This version's arithmetic cannot compute with a format.
        MatrixMalformed: A row is not a whole number of blocks.
    """
    view = memoryview(shard)
    if not view.c_contiguous:
        raise ShardMisfit("the shard's bytes must lie side by side in memory")
    view = view.cast("B")
    sizes = (*matrix_bytes(layout), *layout.bias_bytes)
    if view.nbytes != sum(sizes):
        raise ShardMisfit(f"the shard needs {sum(sizes)} bytes, has {view.nbytes}")
    ends = list(accumulate(sizes))
    parts = [view[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    return weights_of_parts(parts, layout)


def weights_of_parts(
    parts: Sequence[memoryview], layout: ExpertLayout
) -> ExpertWeights:
    """Return the expert whose matrices and biases these are, in a shard's order.

    They may lie anywhere. Raises as `expert_weights`.
    """
    for number in (layout.gate_format, layout.up_format, layout.down_format):
        is_integer(_format(number))  # refuses what cannot be computed with
    sizes = (*matrix_bytes(layout), *layout.bias_bytes)
    if tuple(part.nbytes for part in parts) != sizes:
        raise ShardMisfit(f"the shard's parts have not {sizes} bytes")
    gate, up, down, *biases = parts
    n_embd, n_ff = layout.n_embd, layout.n_ff
    gate_bias, up_bias, down_bias = map(_floats, biases) if biases else (None,) * 3
    return ExpertWeights(
        gate=_matrix(layout.gate_format, n_ff, n_embd, gate),
        up=_matrix(layout.up_format, n_ff, n_embd, up),
        down=_matrix(layout.down_format, n_embd, n_ff, down),
        activation=layout.activation,
        gate_bias=gate_bias,
        up_bias=up_bias,
        down_bias=down_bias,
    )


def check_expert(weights: ExpertWeights, expert: ExpertId) -> None:
    """Refuse an expert whose weights, scales or biases are not all finite numbers.

    A shard may be what its name says and still hold no numbers: its model is bad.

    Raises:
        MatrixMalformed: Names the expert, the part and the first bad row.
    """
    parts = {"gate": weights.gate, "up": weights.up, "down": weights.down}
    for part, matrix in parts.items():
        try:
            check_matrix(matrix)
        except MatrixMalformed as exc:
            raise MatrixMalformed(f"{part} of expert {expert}: {exc}") from exc
    biases = {
        "gate": weights.gate_bias,
        "up": weights.up_bias,
        "down": weights.down_bias,
    }
    for part, bias in biases.items():
        if bias is not None and not np.isfinite(bias).all():
            at = int(np.isfinite(bias).argmin())
            reason = f"{part} bias of expert {expert}: value {at} is no finite number"
            raise MatrixMalformed(reason)


def _matrix(number: int, n_rows: int, n_cols: int, raw: memoryview) -> Matrix:
    return Matrix(format=_format(number), n_rows=n_rows, n_cols=n_cols, raw=raw)


def _floats(raw: memoryview) -> Floats:
    return np.frombuffer(raw, "<f4").astype(np.float32)


def _format(number: int) -> Format:
    try:
        return Format(number)
    except ValueError as exc:
        raise FormatUnsupported(f"ggml format {number} is unknown here") from exc
