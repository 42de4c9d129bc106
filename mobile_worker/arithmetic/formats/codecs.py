"""Which formats can be computed with, and how each is read.

An integer format gives codes and scales per block of 32; a float format gives values.
A format that is listed in `Format` and not here is refused with a clear error.
"""

from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.f16 import F16
from mobile_worker.arithmetic.formats.f32 import F32
from mobile_worker.arithmetic.formats.q4_0 import Q40
from mobile_worker.arithmetic.formats.q8_0 import Q80
from mobile_worker.arithmetic.matrix import Matrix

__all__ = [
    "FloatCodec",
    "IntegerCodec",
    "dequantize",
    "float_codec",
    "integer_codec",
    "is_integer",
    "is_supported",
]


class IntegerCodec(Protocol):
    """Reads a format whose blocks are integer codes times a scale."""

    format: ClassVar[Format]

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_blocks, 32]."""
        ...

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales, f32 [n_rows, n_blocks]."""
        ...


class FloatCodec(Protocol):
    """Reads a format of plain numbers."""

    format: ClassVar[Format]

    def values(self, matrix: Matrix) -> Floats:
        """Return the values, f32 [n_rows, n_cols]."""
        ...


_INTEGER: dict[Format, IntegerCodec] = {
    Format.Q4_0: Q40(),
    Format.Q8_0: Q80(),
}
_FLOAT: dict[Format, FloatCodec] = {
    Format.F16: F16(),
    Format.F32: F32(),
}


def is_supported(block_format: Format) -> bool:
    """Say whether this version can compute with the format."""
    return block_format in _INTEGER or block_format in _FLOAT


def is_integer(block_format: Format) -> bool:
    """Say whether products use coded rows (else floats); FormatUnsupported."""
    if not is_supported(block_format):
        raise FormatUnsupported(f"cannot compute with format {block_format.name}")
    return block_format in _INTEGER


def integer_codec(block_format: Format) -> IntegerCodec:
    """Return the reader of an integer format, or raise FormatUnsupported."""
    try:
        return _INTEGER[block_format]
    except KeyError:
        raise FormatUnsupported(f"no integer codes in {block_format.name}") from None


def float_codec(block_format: Format) -> FloatCodec:
    """Return the reader of a float format, or raise FormatUnsupported."""
    try:
        return _FLOAT[block_format]
    except KeyError:
        raise FormatUnsupported(f"no plain floats in {block_format.name}") from None


def dequantize(matrix: Matrix) -> Floats:
    """Return the weights as numbers, fl(code * s), f32 [n_rows, n_cols]."""
    if not is_integer(matrix.format):
        return float_codec(matrix.format).values(matrix)
    codec = integer_codec(matrix.format)
    values = codec.codes(matrix) * codec.scales(matrix)[:, :, None]
    return values.reshape(matrix.n_rows, matrix.n_cols)
