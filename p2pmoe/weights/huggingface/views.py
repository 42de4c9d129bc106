"""Whole tensors made of others: stacked, halved, picked apart, turned, permuted.

A `View` is a tensor in GGUF's terms (format, shape) over rows that are computed when
they are read. Making one costs nothing and reads nothing; functions here only say how
rows are found. Shapes are checked, since a wrong one would find the wrong rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from p2pmoe.weights.huggingface.rows import (
    Columns,
    Every,
    Joined,
    PlusOne,
    Reordered,
    Rows,
    Transposed,
)

__all__ = [
    "ShapeMismatch",
    "View",
    "every_other",
    "halves",
    "head_parts",
    "permute_heads",
    "plus_one",
    "stack",
    "transpose",
]


# Far above any model, far below what would fill the memory with rows to remember.
_MAX_MATRICES = 1 << 16
_MAX_ROWS = 1 << 22


class ShapeMismatch(ValueError):
    """Tensors do not have the shape that they are put together by; says which."""


@dataclass(frozen=True, slots=True)
class View:
    """A tensor; `shape` has columns last, all else flattened are the rows."""

    format: Format
    shape: tuple[int, ...]
    rows: Rows


def stack(views: Sequence[View]) -> View:
    """Return equal tensors as one, with a new first dimension."""
    first = views[0]
    for view in views:
        if (view.format, view.shape) != (first.format, first.shape):
            raise ShapeMismatch(
                f"{view.format.name} {list(view.shape)} beside "
                f"{first.format.name} {list(first.shape)}"
            )
    rows = Joined([view.rows for view in views])
    return View(first.format, (len(views), *first.shape), rows)


def halves(view: View) -> tuple[View, View]:
    """Return the first and second half of each matrix's rows."""
    half = _even(view, -2) // 2
    return _picked(view, 0, 1), _picked(view, half, 1)


def every_other(view: View, *, of_columns: bool = False) -> tuple[View, View]:
    """Return the even and the odd rows of each matrix, or its even and odd columns."""
    if not of_columns:
        _even(view, -2)
        return _picked(view, 0, 2), _picked(view, 1, 2)
    shape = (*view.shape[:-1], _even(view, -1) // 2)
    even, odd = (Columns(view.rows, start, 2) for start in (0, 1))
    return View(view.format, shape, even), View(view.format, shape, odd)


def transpose(view: View) -> View:
    """Return each matrix with its rows as columns."""
    n_matrices = _n_matrices(view)
    n_rows, n_cols = view.shape[-2:]
    parts = [
        Transposed(view.rows, number * n_rows, n_rows) for number in range(n_matrices)
    ]
    return View(view.format, (*view.shape[:-2], n_cols, n_rows), Joined(parts))


def head_parts(view: View, n_heads: int, sizes: Sequence[int]) -> tuple[View, ...]:
    """Return a matrix whose rows are heads, each of parts of `sizes` rows, by part."""
    n_rows, n_cols = _matrix(view)
    if n_rows != n_heads * sum(sizes):
        raise ShapeMismatch(f"{n_rows} rows for {n_heads} heads of {list(sizes)}")
    parts = []
    start = 0
    for size in sizes:
        rows = Joined(
            [
                Every(view.rows, head * sum(sizes) + start, size)
                for head in range(n_heads)
            ]
        )
        parts.append(View(view.format, (n_heads, size, n_cols), rows))
        start += size
    return tuple(parts)


def permute_heads(view: View, n_heads: int) -> View:
    """Return a projection whose rotary pairs (i, i + half) become (2i, 2i + 1).

    So llama.cpp stores queries and keys of the llama architecture.
    """
    n_rows, _ = _matrix(view)
    if n_rows % (2 * n_heads):
        raise ShapeMismatch(f"{n_rows} rows for {n_heads} heads")
    pairs = np.arange(n_rows, dtype=np.intp).reshape(n_heads, 2, -1)
    order = pairs.swapaxes(1, 2).reshape(-1)
    return View(view.format, view.shape, Reordered(view.rows, order))


def plus_one(view: View) -> View:
    """Return an F32 norm that was stored as its distance from 1."""
    return View(view.format, view.shape, PlusOne(view.rows))


def _matrix(view: View) -> tuple[int, int]:
    if len(view.shape) != 2 or view.shape[0] > _MAX_ROWS:
        raise ShapeMismatch(f"{list(view.shape)} is no matrix of at most {_MAX_ROWS}")
    return view.shape[0], view.shape[1]


def _picked(view: View, start: int, step: int) -> View:
    """Return half of each matrix's rows: each `step`-th, from `start` on."""
    n_rows = view.shape[-2]
    half = n_rows // 2
    parts = [
        Every(view.rows, number * n_rows + start, half, step)
        for number in range(_n_matrices(view))
    ]
    return View(view.format, (*view.shape[:-2], half, view.shape[-1]), Joined(parts))


def _even(view: View, axis: int) -> int:
    """Return how many there are of what is to be halved."""
    _n_matrices(view)
    if view.shape[axis] % 2:
        raise ShapeMismatch(f"{list(view.shape)} has no two halves")
    return view.shape[axis]


def _n_matrices(view: View) -> int:
    n_matrices = prod(view.shape[:-2])
    if len(view.shape) < 2 or n_matrices > _MAX_MATRICES:
        raise ShapeMismatch(f"{list(view.shape)} is no stack of matrices")
    return n_matrices
