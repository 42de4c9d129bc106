"""Q3_K: 256 values a block in 16 groups of 16, each with a 6-bit scale.

    32 bytes of third bits: value 32 * p + i has bit p of byte i
    64 bytes of 2-bit codes, as in Q2_K
    12 bytes of scales: the low 4 bits of scale j are nibble j / 8 of byte j % 8, the
        high 2 bits are bits 2 * (j / 4) of byte 8 + j % 4
    f16 d

code = the 2 bits, less 4 where the third bit is not set; s = fl(d * (sc - 32)).
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, in_widths, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q3K"]


class Q3K:
    """Codes and scales of Q3_K rows."""

    format: ClassVar[Format] = Format.Q3_K
    width: ClassVar[int] = 16
    has_minima: ClassVar[bool] = False

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_cols / 16, 16]."""
        blocks = blocks_of(matrix)
        packed = blocks[:, :, 32:96].reshape(*blocks.shape[:2], 2, 32)
        codes = planes(packed, 2).reshape(*blocks.shape[:2], 256)
        codes |= planes(blocks[:, :, :32], 1) << 2
        signed = codes.view(np.int8)
        signed -= 4
        return in_widths(signed, 16)

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_cols / 16]."""
        blocks = blocks_of(matrix)
        factors = planes(blocks[:, :, 96:104], 4)
        factors |= planes(blocks[:, :, 104:108], 2) << 4
        centred = factors.astype(np.float32) - np.float32(32)
        return (half(blocks, 108) * centred).reshape(matrix.n_rows, -1)

    def minima(self, matrix: Matrix) -> None:
        """Return nothing: there are no minima."""
