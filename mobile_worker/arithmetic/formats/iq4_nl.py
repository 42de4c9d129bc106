"""IQ4_NL: 32 values a block, one f16 scale d, nibbles that look up 16 integers.

    f16 d | 16 bytes: value i is the low nibble of byte i, value i + 16 the high one

code = TABLE[nibble], s = d. The table is spaced as weights are distributed.
"""

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["IQ4NL", "TABLE"]

TABLE: Final = np.array(
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.int8
)


class IQ4NL:
    """Codes and scales of IQ4_NL rows."""

    format: ClassVar[Format] = Format.IQ4_NL
    width: ClassVar[int] = 32
    has_minima: ClassVar[bool] = False

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_blocks, 32]."""
        return TABLE[planes(blocks_of(matrix)[:, :, 2:], 4)]

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_blocks]."""
        return half(blocks_of(matrix), 0)[:, :, 0]

    def minima(self, matrix: Matrix) -> None:
        """Return nothing: there are no minima."""
