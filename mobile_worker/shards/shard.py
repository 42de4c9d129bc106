"""A shard's bytes as the weights of one expert.

A shard is gate || up || down, each in the model file's own block format, rows one
after the other, nothing before, between or after. No copy is made: the matrices are
views of the bytes handed in, which must not change afterwards. No I/O.
"""

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
    return sum(matrix_bytes(layout))


def expert_weights(
    shard: bytes | bytearray | memoryview, layout: ExpertLayout
) -> ExpertWeights:
    """Return the expert whose bytes these are, as views into `shard`.

    Raises:
        ShardMisfit: `shard` is too short or too long for the layout.
        FormatUnsupported: This version's arithmetic cannot compute with a format.
        MatrixMalformed: A row is not a whole number of blocks.
    """
    for number in (layout.gate_format, layout.up_format, layout.down_format):
        is_integer(_format(number))  # refuses what cannot be computed with
    view = memoryview(shard)
    if not view.c_contiguous:
        raise ShardMisfit("the shard's bytes must lie side by side in memory")
    view = view.cast("B")
    n_gate, n_up, n_down = matrix_bytes(layout)
    needed = n_gate + n_up + n_down
    if view.nbytes != needed:
        raise ShardMisfit(f"the shard needs {needed} bytes, has {view.nbytes}")
    n_embd, n_ff = layout.n_embd, layout.n_ff
    return ExpertWeights(
        gate=Matrix(
            format=_format(layout.gate_format),
            n_rows=n_ff,
            n_cols=n_embd,
            raw=view[:n_gate],
        ),
        up=Matrix(
            format=_format(layout.up_format),
            n_rows=n_ff,
            n_cols=n_embd,
            raw=view[n_gate : n_gate + n_up],
        ),
        down=Matrix(
            format=_format(layout.down_format),
            n_rows=n_embd,
            n_cols=n_ff,
            raw=view[n_gate + n_up :],
        ),
        activation=layout.activation,
    )


def check_expert(weights: ExpertWeights, expert: ExpertId) -> None:
    """Refuse an expert whose weights or scales are not all finite numbers.

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


def _format(number: int) -> Format:
    try:
        return Format(number)
    except ValueError as exc:
        raise FormatUnsupported(f"ggml format {number} is unknown here") from exc
