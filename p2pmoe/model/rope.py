"""Rotary position embedding from tables made once.

The first `n_rotated` values of a head are turned, the others pass. Value i and value
i + n_rotated / 2 form a pair (the "neox" order); pair i turns by
position * base^(-2 i / n_rotated). The tables are computed in f64 and rounded once.
"""

from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import Floats

__all__ = ["Rope"]


@dataclass(frozen=True, slots=True, eq=False)
class Rope:
    """Cosines and sines of every position up to a limit."""

    cos: Floats  # [n_positions, n_rotated / 2]
    sin: Floats  # [n_positions, n_rotated / 2]

    @classmethod
    def make(cls, n_positions: int, n_rotated: int, base: float) -> "Rope":
        """Compute the tables."""
        exponents = np.arange(0, n_rotated, 2, dtype=np.float64) / n_rotated
        angles = np.arange(n_positions, dtype=np.float64)[:, None] * base**-exponents
        return cls(np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32))

    def turn(self, heads: Floats, first: int) -> None:
        """Turn `heads` [n, n_heads, head_dim] in place; row i is position first + i."""
        end = first + len(heads)
        cos = self.cos[first:end, None, :]
        sin = self.sin[first:end, None, :]
        half = cos.shape[2]
        left = heads[:, :, :half]
        right = heads[:, :, half : 2 * half]
        turned_left = left * cos
        turned_left -= right * sin
        turned_right = right * cos
        turned_right += left * sin
        heads[:, :, :half] = turned_left
        heads[:, :, half : 2 * half] = turned_right
