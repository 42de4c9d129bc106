"""Q4_0: 32 values a block, one f16 scale d, 16 bytes of nibbles.

    f16 d | 16 bytes: value i is the low nibble of byte i, value i + 16 the high one

code = nibble - 8, s = d.
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q40"]


class Q40:
    """Codes and scales of Q4_0 rows."""

    format: ClassVar[Format] = Format.Q4_0
    width: ClassVar[int] = 32
    has_minima: ClassVar[bool] = False

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_blocks, 32]."""
        codes = planes(blocks_of(matrix)[:, :, 2:], 4).view(np.int8)
        codes -= 8
        return codes

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_blocks]."""
        return half(blocks_of(matrix), 0)[:, :, 0]

    def minima(self, matrix: Matrix) -> None:
        """Return nothing: there are no minima."""
