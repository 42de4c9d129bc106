"""Rotary position embedding from tables that grow as positions are reached.

The first `n_rotated` values of a head are turned, the others pass. A pair is value i
and value i + n_rotated / 2 (the "neox" order), or neighbours 2i and 2i + 1
(interleaved); pair i turns by position * frequency[i], and cosine and sine carry the
magnitude of the settings. The tables are computed in f64 and rounded once; a file may
promise any context, so none is made before it is used. What a file's metadata means is
`rope_settings`' affair.
"""

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.rope_settings import RopeSettings

__all__ = ["Rope", "turn"]

_FIRST_POSITIONS = 1024


class Rope:
    """Cosines and sines by position, each [n_positions, n_rotated / 2]."""

    def __init__(self, settings: RopeSettings) -> None:
        """Begin with the first positions."""
        self.interleaved = settings.interleaved
        self._frequencies = settings.frequencies()
        self._magnitude = settings.magnitude
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
        cosines, sines = np.cos(angles), np.sin(angles)
        cosines *= self._magnitude
        sines *= self._magnitude
        return cosines.astype(np.float32), sines.astype(np.float32)


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
