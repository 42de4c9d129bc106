"""Rotary position embedding from tables that grow as positions are reached.

The first `n_rotated` values of a head are turned, the others pass. Value i and value
i + n_rotated / 2 form a pair (the "neox" order); pair i turns by
position * base^(-2 i / n_rotated). The tables are computed in f64 and rounded once; a
file may promise any context, so none is made before it is used.
"""

import numpy as np

from mobile_worker.arithmetic.coding import Floats

__all__ = ["Rope", "turn"]

_FIRST_POSITIONS = 1024


class Rope:
    """Cosines and sines by position, each [n_positions, n_rotated / 2]."""

    def __init__(self, n_rotated: int, base: float) -> None:
        """Begin with the first positions."""
        exponents = np.arange(0, n_rotated, 2, dtype=np.float64) / n_rotated
        self._frequencies = base**-exponents
        self._tables = self._make(_FIRST_POSITIONS)

    def tables(self, first: int, n: int) -> tuple[Floats, Floats]:
        """Return cosines and sines of n positions from `first` on, [n, half] each."""
        end = first + n
        tables = self._tables
        if end > len(tables[0]):  # replaced whole: several threads may ask
            tables = self._tables = self._make(max(end, 2 * len(tables[0])))
        return tables[0][first:end], tables[1][first:end]

    def _make(self, n_positions: int) -> tuple[Floats, Floats]:
        positions = np.arange(n_positions, dtype=np.float64)
        angles = positions[:, None] * self._frequencies
        return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def turn(heads: Floats, cosines: Floats, sines: Floats, interleaved: bool) -> None:
    """Turn `heads` [n, n_heads, head_dim] in place, row i by row i of the tables.

    `cosines` and `sines` [n, half]; values beyond the first 2 * half pass. Pair k is
    values 2 k and 2 k + 1 if `interleaved`, else k and k + half. Each value is two
    products, rounded, and their difference or sum: fl(fl(l * cos) - fl(r * sin)) and
    fl(fl(r * cos) + fl(l * sin)).
    """
    cos, sin = cosines[:, None, :], sines[:, None, :]
    half = cos.shape[2]
    if interleaved:
        left, right = heads[:, :, 0 : 2 * half : 2], heads[:, :, 1 : 2 * half : 2]
    else:
        left, right = heads[:, :, :half], heads[:, :, half : 2 * half]
    turned_left = left * cos
    turned_left -= right * sin
    turned_right = right * cos
    turned_right += left * sin
    left[...] = turned_left
    right[...] = turned_right
