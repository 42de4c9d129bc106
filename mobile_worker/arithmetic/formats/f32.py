"""F32: IEEE binary32, little-endian."""

from typing import ClassVar

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["F32"]


class F32:
    """Values of F32 rows."""

    format: ClassVar[Format] = Format.F32

    def values(self, matrix: Matrix) -> Floats:
        """Return the values, f32 [n_rows, n_cols]."""
        raw = np.frombuffer(matrix.raw, "<f4")
        return raw.reshape(matrix.n_rows, matrix.n_cols).astype(np.float32, copy=False)
