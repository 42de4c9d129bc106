"""Q2_K: 256 values a block in 16 groups of 16, each with a 4-bit scale and minimum.

    16 bytes, one a group: scale sc the low nibble, minimum mn the high one
    64 bytes of 2-bit codes | f16 d | f16 dmin

Bytes 0 to 31 hold values 0 to 127, two bits of each byte after the other: value
32 * p + i is bits 2p of byte i; bytes 32 to 63 likewise the second 128.
code = the 2 bits, s = fl(d * sc), minimum = fl(dmin * mn).
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, in_widths, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q2K"]


class Q2K:
    """Codes, scales and minima of Q2_K rows."""

    format: ClassVar[Format] = Format.Q2_K
    width: ClassVar[int] = 16
    has_minima: ClassVar[bool] = True

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_cols / 16, 16]."""
        blocks = blocks_of(matrix)
        packed = blocks[:, :, 16:80].reshape(*blocks.shape[:2], 2, 32)
        return in_widths(planes(packed, 2).view(np.int8), 16)

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_cols / 16]."""
        blocks = blocks_of(matrix)
        factors = (blocks[:, :, :16] & 15).astype(np.float32)
        return (half(blocks, 80) * factors).reshape(matrix.n_rows, -1)

    def minima(self, matrix: Matrix) -> Floats:
        """Return the minima, f32 [n_rows, n_cols / 16]."""
        blocks = blocks_of(matrix)
        factors = (blocks[:, :, :16] >> 4).astype(np.float32)
        return (half(blocks, 82) * factors).reshape(matrix.n_rows, -1)
