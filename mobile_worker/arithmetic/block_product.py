"""Products of coded rows with integer weights, block by block, exact to the bit.

Specification 02, "Weights". For the blocks b of a row of weights, ascending:

    acc = fl(acc + fl(f32(dot_b) * fl(s_b * xscale_b)))
    acc = fl(acc - fl(f32(sum_b) * fl(m_b * xscale_b)))    where there is a minimum

Codes are at most 128 * 127 in size, so the dot product of 32 of them stays below 2^24
and float32 matrix multiplication gives the exact integer whatever order it sums in.
All that rounds is element-wise. A block is 16 or 32 columns wide; one of 16 uses the
activation scale of the 32 columns that it lies in. Rows never influence each other.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import (
    BLOCK,
    ExpertInput,
    Floats,
    check_chosen,
    check_coded,
    check_input,
)
from mobile_worker.arithmetic.decoded import DecodedCodes

__all__ = ["Upright", "block_product", "stand_up", "upright"]

_ZERO: Final = np.float32(0.0)
_ONE_SHOT_TERMS: Final = 1 << 19  # products held at once; bounds memory, not results
_STRIP_TERMS: Final = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Upright:
    """Rows of input; the coded ones upright, as the block products want them."""

    n: int
    codes: Floats | None  # [n_cols / 32, 32, n]
    scales: Floats | None  # [n_cols / 32, 1, n]
    floats: Floats | None  # [n, n_cols]

    def take(self, rows: npt.NDArray[np.int64] | None) -> "Upright":
        """Return these rows alone, or all for None; ShapeMismatch for no such row."""
        if rows is None:
            return self
        check_chosen(rows, self.n)
        return Upright(
            len(rows),
            None if self.codes is None else np.take(self.codes, rows, axis=2),
            None if self.scales is None else np.take(self.scales, rows, axis=2),
            None if self.floats is None else self.floats[rows],
        )


def upright(rows: ExpertInput) -> Upright:
    """Stand rows from outside upright; CodeRefused, ShapeMismatch."""
    check_input(rows)
    coded = rows.coded
    if coded is None:
        return Upright(rows.n_rows, None, None, rows.floats)
    check_coded(coded)
    n, n_cols = coded.codes.shape
    codes = coded.codes.reshape(n, n_cols // BLOCK, BLOCK).astype(np.float32)
    return stand_up(codes, coded.scales[:, :, None], rows.floats)


def stand_up(codes: Floats, scales: Floats, floats: Floats | None) -> Upright:
    """Stand codes [n, n_blocks, 32] and scales [n, n_blocks, 1] upright."""
    return Upright(
        len(codes),
        np.ascontiguousarray(codes.transpose(1, 2, 0)),
        np.ascontiguousarray(scales.transpose(1, 2, 0)),
        floats,
    )


def block_product(weights: DecodedCodes, x: Floats, x_scales: Floats) -> Floats:
    """Return f32 [n, n_rows] of upright rows with integer weights.

    `x` are codes [n_cols / 32, 32, n], `x_scales` [n_cols / 32, 1, n], one a block.
    """
    n_blocks, n_rows, width = weights.codes.shape
    n = x.shape[2]
    if n == 0:
        return np.empty((0, n_rows), np.float32)
    if width != BLOCK:
        x = x.reshape(n_blocks, width, n)
        x_scales = np.repeat(x_scales, BLOCK // width, axis=0)
    sums = None
    if weights.minima is not None:
        sums = np.add.reduce(x, axis=1, keepdims=True)  # [n_blocks, 1, n], exact
    if n_blocks * n_rows * n <= _ONE_SHOT_TERMS and n_rows * n > 1:
        product = _at_one_go(weights, x, x_scales, sums)
    else:
        product = _in_strips(weights, x, x_scales, sums)
    return product.reshape(1, n_rows) if n == 1 else np.ascontiguousarray(product.T)


def _at_one_go(
    weights: DecodedCodes, x: Floats, x_scales: Floats, sums: Floats | None
) -> Floats:
    """Return f32 [n_rows, n]; all terms at once, then added in their order."""
    if sums is None or weights.minima is None:
        terms = weights.scales * x_scales
        terms *= np.matmul(weights.codes, x)
        return _add_up(terms)
    n_blocks, n_rows, _ = weights.codes.shape
    both = np.empty((n_blocks, 2, n_rows, x.shape[2]), np.float32)
    np.multiply(weights.scales, x_scales, out=both[:, 0])
    both[:, 0] *= np.matmul(weights.codes, x)
    np.multiply(weights.minima, x_scales, out=both[:, 1])
    both[:, 1] *= -sums  # adding a negated term rounds as subtracting it
    return _add_up(both.reshape(2 * n_blocks, n_rows, -1))


def _add_up(terms: Floats) -> Floats:
    """Add terms [n_terms, n_rows, n] in ascending order to 0: f32 [n_rows, n]."""
    total: Floats = np.add.reduce(terms, axis=0, initial=_ZERO)
    return total


def _in_strips(
    weights: DecodedCodes, x: Floats, x_scales: Floats, sums: Floats | None
) -> Floats:
    """Return f32 [n_rows, n], a strip of rows after the other, block by block."""
    n_blocks, n_rows, _ = weights.codes.shape
    n = x.shape[2]
    product = np.zeros((n_rows, n), np.float32)
    strip = max(1, _STRIP_TERMS // n)
    for first in range(0, n_rows, strip):
        part = slice(first, first + strip)
        for b in range(n_blocks):
            term = weights.scales[b, part] * x_scales[b]
            term *= np.matmul(weights.codes[b, part], x[b])
            product[part] += term
            if sums is not None and weights.minima is not None:
                term = weights.minima[b, part] * x_scales[b]
                term *= sums[b]
                product[part] -= term
    return product
