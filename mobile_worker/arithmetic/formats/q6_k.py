"""Q6_K: 256 values a block in 16 groups of 16, each with an 8-bit scale.

    128 bytes of low nibbles: bytes 0 to 63 hold values 0 to 63 low, 64 to 127 high;
        bytes 64 to 127 likewise the second 128 values
    64 bytes of high 2 bits: bytes 0 to 31 hold those of values 0 to 127, value
        32 * p + i at bits 2p of byte i; bytes 32 to 63 likewise the second 128
    16 x i8 scales sc | f16 d

code = (nibble | 2 bits * 16) - 32, s = fl(d * sc).
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, in_widths, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q6K"]


class Q6K:
    """Codes and scales of Q6_K rows."""

    format: ClassVar[Format] = Format.Q6_K
    width: ClassVar[int] = 16
    has_minima: ClassVar[bool] = False

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_cols / 16, 16]."""
        blocks = blocks_of(matrix)
        outer = blocks.shape[:2]
        codes = planes(blocks[:, :, :128].reshape(*outer, 2, 64), 4)
        codes |= planes(blocks[:, :, 128:192].reshape(*outer, 2, 32), 2) << 4
        signed = codes.view(np.int8)
        signed -= 32
        return in_widths(signed, 16)

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_cols / 16]."""
        blocks = blocks_of(matrix)
        factors = blocks[:, :, 192:208].view(np.int8).astype(np.float32)
        return (half(blocks, 208) * factors).reshape(matrix.n_rows, -1)

    def minima(self, matrix: Matrix) -> None:
        """Return nothing: there are no minima."""
