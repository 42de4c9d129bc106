"""Weights in their file's own bytes: a matrix, and the three of an expert.

`Matrix` owns no copy: `raw` is a view of the bytes as they lie in the file. Two
matrices are the same only if they are the same object; a kernel may keep what it
decoded under that identity for as long as the object lives.
"""

from dataclasses import dataclass, field

import numpy as np

from mobile_worker.arithmetic.activation import Activation
from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.formats.block_format import Format, row_bytes

__all__ = ["ExpertWeights", "Matrix", "rows_of", "shape_bytes"]

_WIDTH = 32


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class Matrix:
    """A matrix of `n_rows` x `n_cols` weights; MatrixMalformed if the bytes do not fit.

    A product with it maps rows of n_cols values to rows of n_rows values.
    """

    format: Format
    n_rows: int
    n_cols: int
    raw: memoryview  # n_rows * row_bytes(format, n_cols) bytes

    def __post_init__(self) -> None:
        """Refuse a shape that is no shape and bytes of another length."""
        expected = shape_bytes(self.format, self.n_rows, self.n_cols)
        if not self.raw.c_contiguous:
            raise MatrixMalformed("a matrix's bytes must lie side by side in memory")
        if self.raw.nbytes != expected:
            raise MatrixMalformed(
                f"a {self.format.name} matrix of {self.n_rows} x {self.n_cols} needs "
                f"{expected} bytes, has {self.raw.nbytes}"
            )


def shape_bytes(block_format: Format, n_rows: int, n_cols: int) -> int:
    """Return the bytes of such a matrix; MatrixMalformed if there can be none."""
    if n_rows <= 0 or n_cols <= 0 or n_cols % _WIDTH:
        raise MatrixMalformed(
            f"a matrix of {n_rows} x {n_cols}: columns must be a positive multiple "
            f"of {_WIDTH}"
        )
    return n_rows * row_bytes(block_format, n_cols)


def rows_of(matrix: Matrix, first: int, end: int) -> Matrix:
    """Return rows `first` to `end` - 1 of a matrix as a view; MatrixMalformed."""
    if not 0 <= first < end <= matrix.n_rows:
        raise MatrixMalformed(f"no rows {first} to {end} of {matrix.n_rows}")
    size = matrix.raw.nbytes // matrix.n_rows
    return Matrix(
        format=matrix.format,
        n_rows=end - first,
        n_cols=matrix.n_cols,
        raw=matrix.raw.cast("B")[first * size : end * size],
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpertWeights:
    """One gated feed-forward: y = down(act(gate x, up x)); MatrixMalformed.

    Each matrix may have a format of its own, and a bias that is added to its products.
    `held` is a kernel's: what it made of the weights to compute with, kept as long as
    they are.
    """

    gate: Matrix  # [n_ff, n_embd]
    up: Matrix  # [n_ff, n_embd]
    down: Matrix  # [n_embd, n_ff]
    activation: Activation
    gate_bias: Floats | None = None  # [n_ff]
    up_bias: Floats | None = None  # [n_ff]
    down_bias: Floats | None = None  # [n_embd]
    held: object | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse matrices whose shapes do not chain and biases that do not fit."""
        gate, up, down = self.gate, self.up, self.down
        chained = (
            (up.n_rows, up.n_cols) == (gate.n_rows, gate.n_cols)
            and down.n_cols == gate.n_rows
            and down.n_rows == gate.n_cols
        )
        if not chained:
            raise MatrixMalformed(
                "gate, up and down do not chain: "
                + ", ".join(f"{m.n_rows} x {m.n_cols}" for m in (gate, up, down))
            )
        _check_bias("gate", gate, self.gate_bias)
        _check_bias("up", up, self.up_bias)
        _check_bias("down", down, self.down_bias)


def _check_bias(part: str, matrix: Matrix, bias: Floats | None) -> None:
    if bias is None or (bias.dtype == np.float32 and bias.shape == (matrix.n_rows,)):
        return
    raise MatrixMalformed(
        f"the {part} bias is {bias.dtype} {list(bias.shape)}, must be "
        f"float32 [{matrix.n_rows}]"
    )
