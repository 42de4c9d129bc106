"""What the extension takes: matrices, calls and rows as tuples of buffers."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import (
    ExpertInput,
    Floats,
    check_chosen,
    check_input,
)
from mobile_worker.arithmetic.errors import CodeRefused, NonFinite, ShapeMismatch
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix

__all__ = [
    "CallArguments",
    "RowArguments",
    "call_arguments",
    "check_width",
    "contiguous",
    "count_rows",
    "cut_call",
    "macs",
    "matrix_arguments",
    "refuse",
    "row_arguments",
]

_F32: Final = np.dtype(np.float32)
_NON_FINITE: Final = 1
_CODE_REFUSED: Final = 2

MatrixArguments = tuple[int, int, int, memoryview, Floats | None]
RowArguments = tuple[object, object, object, int]  # codes, scales, floats, how many
CallArguments = tuple[
    int, float, float, MatrixArguments, MatrixArguments, MatrixArguments, object
]


def contiguous(x: Floats) -> Floats:
    """Return f32 values side by side, aligned, as the extension reads them."""
    flags = x.flags
    if x.dtype == _F32 and flags.c_contiguous and flags.aligned:
        return x
    return np.require(x, _F32, ("C", "A"))


def matrix_arguments(matrix: Matrix, bias: Floats | None) -> MatrixArguments:
    """Return (format, n_rows, n_cols, raw, bias)."""
    own = None if bias is None else contiguous(bias)
    return (int(matrix.format), matrix.n_rows, matrix.n_cols, matrix.raw, own)


def call_arguments(call: KernelCall) -> CallArguments:
    """Return one call of an expert."""
    weights = call.weights
    activation = weights.activation
    rows = call.rows
    if rows is not None:
        rows = np.array(rows, np.int64)  # ours: nobody changes them once checked
    return (
        int(activation.kind),
        activation.alpha,
        activation.limit,
        matrix_arguments(weights.gate, weights.gate_bias),
        matrix_arguments(weights.up, weights.up_bias),
        matrix_arguments(weights.down, weights.down_bias),
        rows,
    )


def row_arguments(rows: ExpertInput) -> RowArguments:
    """Return the rows in the kinds they have; ShapeMismatch as `check_input`."""
    check_input(rows)
    codes = scales = None
    if rows.coded is not None:
        codes = np.ascontiguousarray(rows.coded.codes)
        scales = contiguous(rows.coded.scales)
    floats = None if rows.floats is None else contiguous(rows.floats)
    return (codes, scales, floats, rows.n_rows)


def check_width(matrix: Matrix, rows: ExpertInput) -> None:
    """Refuse rows that the matrix cannot multiply; ShapeMismatch."""
    if is_integer(matrix.format):
        coded = rows.coded
        if coded is None or coded.codes.shape[1] != matrix.n_cols:
            raise ShapeMismatch(f"no coded rows of {matrix.n_cols} values to multiply")
    elif rows.floats is None or rows.floats.shape[1] != matrix.n_cols:
        raise ShapeMismatch(f"no float rows of {matrix.n_cols} values to multiply")


def count_rows(calls: Sequence[KernelCall], rows: ExpertInput) -> list[int]:
    """Return how many rows each call has; ShapeMismatch if one is not there."""
    n = rows.n_rows
    for call in calls:
        if call.rows is not None:
            check_chosen(call.rows, n)
    return [n if call.rows is None else len(call.rows) for call in calls]


def cut_call(
    call: KernelCall, out: np.ndarray, first: int, end: int
) -> tuple[KernelCall, np.ndarray]:
    """Return a part of a call's rows, and the part of its results."""
    if end - first == len(out):
        return call, out
    rows = np.arange(len(out)) if call.rows is None else call.rows
    return KernelCall(weights=call.weights, rows=rows[first:end]), out[first:end]


def macs(weights: ExpertWeights) -> int:
    """Return the multiply-adds of one row through an expert."""
    parts = (weights.gate, weights.up, weights.down)
    return sum(matrix.n_rows * matrix.n_cols for matrix in parts)


def refuse(outcome: int) -> None:
    """Turn an outcome into NonFinite or CodeRefused; 0 passes."""
    if outcome == _NON_FINITE:
        raise NonFinite("an expert's value is not finite")
    if outcome == _CODE_REFUSED:
        raise CodeRefused("an activation code of -128, or a scale no coding gives")
