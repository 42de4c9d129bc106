"""Q4_1: 32 values a block, f16 scale d, f16 minimum m, 16 bytes of nibbles.

    f16 d | f16 m | 16 bytes: value i is the low nibble of byte i, i + 16 the high one

code = nibble, s = d, minimum = -m (the file adds its m, we subtract ours).
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q41"]


class Q41:
    """Codes, scales and minima of Q4_1 rows."""

    format: ClassVar[Format] = Format.Q4_1
    width: ClassVar[int] = 32
    has_minima: ClassVar[bool] = True

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_blocks, 32]."""
        return planes(blocks_of(matrix)[:, :, 4:], 4).view(np.int8)

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_blocks]."""
        return half(blocks_of(matrix), 0)[:, :, 0]

    def minima(self, matrix: Matrix) -> Floats:
        """Return the minima, f32 [n_rows, n_blocks]."""
        return -half(blocks_of(matrix), 2)[:, :, 0]
