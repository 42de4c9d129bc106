"""Q8_0: 32 values a block, one f16 scale d, 32 signed bytes.

    f16 d | 32 x i8

code = the byte (-128 is legal in a weight), s = d.
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q80"]


class Q80:
    """Codes and scales of Q8_0 rows."""

    format: ClassVar[Format] = Format.Q8_0
    width: ClassVar[int] = 32
    has_minima: ClassVar[bool] = False

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_blocks, 32]."""
        return blocks_of(matrix)[:, :, 2:].view(np.int8)

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_blocks]."""
        return half(blocks_of(matrix), 0)[:, :, 0]

    def minima(self, matrix: Matrix) -> None:
        """Return nothing: there are no minima."""
