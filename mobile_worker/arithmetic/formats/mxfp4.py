"""MXFP4: 32 values a block, one exponent byte e, nibbles of E2M1 floats.

    u8 e | 16 bytes: value i is the low nibble of byte i, value i + 16 the high one

code = E2M1_DOUBLED[nibble], twice the value, hence s = 2^(e - 128). The exponent 255
is no number: such a scale is NaN here, and `check_matrix` refuses it.

Source: OCP Microscaling Formats (MX) 1.0, sections 5.3.3 and 5.4.1.
"""

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["E2M1_DOUBLED", "MXFP4"]

E2M1_DOUBLED: Final = np.array(
    [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], np.int8
)
_SCALES: Final = np.array([2.0 ** (e - 128) for e in range(255)] + [np.nan], np.float32)


class MXFP4:
    """Codes and scales of MXFP4 rows."""

    format: ClassVar[Format] = Format.MXFP4
    width: ClassVar[int] = 32
    has_minima: ClassVar[bool] = False

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_blocks, 32]."""
        return E2M1_DOUBLED[planes(blocks_of(matrix)[:, :, 1:], 4)]

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_blocks]."""
        return _SCALES[blocks_of(matrix)[:, :, 0]]

    def minima(self, matrix: Matrix) -> None:
        """Return nothing: there are no minima."""
