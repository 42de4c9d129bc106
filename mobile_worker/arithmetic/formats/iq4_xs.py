"""IQ4_XS: 256 values a block in 8 groups of 32, each with a 6-bit scale.

    f16 d | u16: the high 2 bits of scale j at bits 2j
          | 4 bytes: the low 4 bits of scale j, two a byte, the even one low
          | 128 bytes of nibbles, 16 a group, each laid out as IQ4_NL

code = IQ4_NL's table[nibble], s = fl(d * (ls - 32)).
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.iq4_nl import TABLE
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, in_widths, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["IQ4XS"]


class IQ4XS:
    """Codes and scales of IQ4_XS rows."""

    format: ClassVar[Format] = Format.IQ4_XS
    width: ClassVar[int] = 32
    has_minima: ClassVar[bool] = False

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_cols / 32, 32]."""
        blocks = blocks_of(matrix)
        packed = blocks[:, :, 8:].reshape(*blocks.shape[:2], 8, 16)
        return in_widths(TABLE[planes(packed, 4)], 32)

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_cols / 32]."""
        blocks = blocks_of(matrix)
        outer = blocks.shape[:2]
        # One byte at a time, so that its parts stay together, the lowest first.
        low = planes(blocks[:, :, 4:8, None], 4).reshape(*outer, 8)
        high = planes(blocks[:, :, 2:4, None], 2).reshape(*outer, 8)
        centred = (low | high << 4).astype(np.float32) - np.float32(32)
        return (half(blocks, 0) * centred).reshape(matrix.n_rows, -1)

    def minima(self, matrix: Matrix) -> None:
        """Return nothing: there are no minima."""
