"""Q5_0: 32 values a block, one f16 scale d, a fifth bit each, 16 bytes of nibbles.

    f16 d | u32 fifth bits, value i's at bit i
          | 16 bytes: value i is the low nibble of byte i, value i + 16 the high one

code = (nibble | fifth bit * 16) - 16, s = d.
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q50"]


class Q50:
    """Codes and scales of Q5_0 rows."""

    format: ClassVar[Format] = Format.Q5_0
    width: ClassVar[int] = 32
    has_minima: ClassVar[bool] = False

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_blocks, 32]."""
        blocks = blocks_of(matrix)
        codes = planes(blocks[:, :, 6:], 4)
        codes |= np.unpackbits(blocks[:, :, 2:6], axis=2, bitorder="little") << 4
        signed = codes.view(np.int8)
        signed -= 16
        return signed

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_blocks]."""
        return half(blocks_of(matrix), 0)[:, :, 0]

    def minima(self, matrix: Matrix) -> None:
        """Return nothing: there are no minima."""
