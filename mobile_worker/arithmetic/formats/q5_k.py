"""Q5_K: 256 values a block in 8 groups of 32, each with a 6-bit scale and minimum.

    f16 d | f16 dmin | 12 bytes of scales sc and minima mn (see six_bits)
    32 bytes of fifth bits: value i of group j has bit j of byte i
    128 bytes of nibbles: bytes 0 to 31 hold group 0 low and group 1 high, and so on

code = nibble | fifth bit * 16, s = fl(d * sc), minimum = fl(dmin * mn).
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.six_bits import head_minima, head_scales
from mobile_worker.arithmetic.formats.unpack import blocks_of, in_widths, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q5K"]


class Q5K:
    """Codes, scales and minima of Q5_K rows."""

    format: ClassVar[Format] = Format.Q5_K
    width: ClassVar[int] = 32
    has_minima: ClassVar[bool] = True

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_cols / 32, 32]."""
        blocks = blocks_of(matrix)
        packed = blocks[:, :, 48:].reshape(*blocks.shape[:2], 4, 32)
        codes = planes(packed, 4).reshape(*blocks.shape[:2], 256)
        codes |= planes(blocks[:, :, 16:48], 1) << 4
        return in_widths(codes.view(np.int8), 32)

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_cols / 32]."""
        return head_scales(matrix)

    def minima(self, matrix: Matrix) -> Floats:
        """Return the minima, f32 [n_rows, n_cols / 32]."""
        return head_minima(matrix)
