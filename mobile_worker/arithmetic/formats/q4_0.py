"""Q4_0: 32 values a block, one f16 scale d, 16 bytes of nibbles.

    f16 d | 16 bytes: value i is the low nibble of byte i, value i + 16 the high one

code = nibble - 8, s = d.
"""

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Q40"]


class Q40:
    """Codes and scales of Q4_0 rows."""

    format: ClassVar[Format] = Format.Q4_0

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_blocks, 32]."""
        nibbles = self._blocks(matrix)[:, :, 2:]
        codes = np.empty((*nibbles.shape[:2], 32), np.uint8)
        np.bitwise_and(nibbles, 15, out=codes[:, :, :16])
        np.right_shift(nibbles, 4, out=codes[:, :, 16:])
        signed = codes.view(np.int8)
        signed -= 8
        return signed

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_blocks]."""
        raw = np.ascontiguousarray(self._blocks(matrix)[:, :, :2])
        return raw.view("<f2")[:, :, 0].astype(np.float32)

    @staticmethod
    def _blocks(matrix: Matrix) -> npt.NDArray[np.uint8]:
        shape = (matrix.n_rows, matrix.n_cols // 32, 18)
        return np.frombuffer(matrix.raw, np.uint8).reshape(shape)
