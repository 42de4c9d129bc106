"""BF16: the upper half of IEEE binary32, little-endian; widened exactly."""

from typing import ClassVar

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["BF16"]


class BF16:
    """Values of BF16 rows."""

    format: ClassVar[Format] = Format.BF16

    def values(self, matrix: Matrix) -> Floats:
        """Return the values, f32 [n_rows, n_cols]."""
        bits = np.frombuffer(matrix.raw, "<u2").astype(np.uint32)
        bits <<= 16
        return bits.view(np.float32).reshape(matrix.n_rows, matrix.n_cols)
