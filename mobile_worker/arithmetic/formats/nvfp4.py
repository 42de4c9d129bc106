"""NVFP4: 64 values a block in 4 groups of 16, each with a scale of 8 bits.

    4 x u8 scales, unsigned E4M3 | 32 bytes of nibbles, 8 a group: value i of a group
        is the low nibble of its byte i, value i + 8 the high one

code = E2M1_DOUBLED[nibble], twice the value, hence s = half of what the scale byte
says: m * 2^-9 for exponent 0, (1 + m / 8) * 2^(e - 7) above. The highest bit is not
looked at, but the bytes 0 and 0x7F mean 0, as in ggml.

Source: ggml's ue4m3; the `gguf` package, class NVFP4.
"""

from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.mxfp4 import E2M1_DOUBLED
from mobile_worker.arithmetic.formats.unpack import blocks_of, in_widths, planes
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["NVFP4"]


def _scale(byte: int) -> float:
    exponent, mantissa = byte >> 3 & 15, byte & 7
    if byte in {0, 0x7F}:
        return 0.0
    if exponent == 0:
        return mantissa * 2.0**-10
    return (1 + mantissa / 8) * 2.0 ** (exponent - 8)


_SCALES: Final = np.array([_scale(byte) for byte in range(256)], np.float32)


class NVFP4:
    """Codes and scales of NVFP4 rows."""

    format: ClassVar[Format] = Format.NVFP4
    width: ClassVar[int] = 16
    has_minima: ClassVar[bool] = False

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_cols / 16, 16]."""
        blocks = blocks_of(matrix)
        packed = blocks[:, :, 4:].reshape(*blocks.shape[:2], 4, 8)
        return in_widths(E2M1_DOUBLED[planes(packed, 4)], 16)

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_cols / 16]."""
        return _SCALES[blocks_of(matrix)[:, :, :4]].reshape(matrix.n_rows, -1)

    def minima(self, matrix: Matrix) -> None:
        """Return nothing: there are no minima."""
