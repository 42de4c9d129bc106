"""Q5_1: 32 values a block, f16 scale d and minimum m, a fifth bit each, nibbles.

    f16 d | f16 m | u32 fifth bits, value i's at bit i
          | 16 bytes: value i is the low nibble of byte i, value i + 16 the high one

code = nibble | fifth bit * 16, s = d, minimum = -m (the file adds its m).
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q51"]


class Q51:
    """Codes, scales and minima of Q5_1 rows."""

    format: ClassVar[Format] = Format.Q5_1
    width: ClassVar[int] = 32
    has_minima: ClassVar[bool] = True

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_blocks, 32]."""
        blocks = blocks_of(matrix)
        codes = planes(blocks[:, :, 8:], 4)
        codes |= np.unpackbits(blocks[:, :, 4:8], axis=2, bitorder="little") << 4
        return codes.view(np.int8)

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_blocks]."""
        return half(blocks_of(matrix), 0)[:, :, 0]

    def minima(self, matrix: Matrix) -> Floats:
        """Return the minima, f32 [n_rows, n_blocks]."""
        return -half(blocks_of(matrix), 2)[:, :, 0]
