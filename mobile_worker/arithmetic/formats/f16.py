"""F16: IEEE binary16, little-endian; widened exactly, subnormals included."""

from typing import ClassVar

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["F16"]


class F16:
    """Values of F16 rows."""

    format: ClassVar[Format] = Format.F16

    def values(self, matrix: Matrix) -> Floats:
        """Return the values, f32 [n_rows, n_cols]."""
        raw = np.frombuffer(matrix.raw, "<f2")
        return raw.reshape(matrix.n_rows, matrix.n_cols).astype(np.float32)
