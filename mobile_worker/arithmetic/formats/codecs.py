"""Which formats can be computed with, and how each is read.

An integer format gives codes, scales and perhaps minima for every `width` columns: the
weight is code * scale - minimum. A float format gives values. A format that is listed
in `Format` and not here is refused with a clear error.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.formats.bf16 import BF16
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.f16 import F16
from mobile_worker.arithmetic.formats.f32 import F32
from mobile_worker.arithmetic.formats.iq4_nl import IQ4NL
from mobile_worker.arithmetic.formats.iq4_xs import IQ4XS
from mobile_worker.arithmetic.formats.mxfp4 import MXFP4
from mobile_worker.arithmetic.formats.nvfp4 import NVFP4
from mobile_worker.arithmetic.formats.q2_k import Q2K
from mobile_worker.arithmetic.formats.q3_k import Q3K
from mobile_worker.arithmetic.formats.q4_0 import Q40
from mobile_worker.arithmetic.formats.q4_1 import Q41
from mobile_worker.arithmetic.formats.q4_k import Q4K
from mobile_worker.arithmetic.formats.q5_0 import Q50
from mobile_worker.arithmetic.formats.q5_1 import Q51
from mobile_worker.arithmetic.formats.q5_k import Q5K
from mobile_worker.arithmetic.formats.q6_k import Q6K
from mobile_worker.arithmetic.formats.q8_0 import Q80
from mobile_worker.arithmetic.matrix import Matrix

__all__ = [
    "BlockLayout",
    "FloatCodec",
    "IntegerCodec",
    "block_layout",
    "dequantize",
    "float_codec",
    "integer_codec",
    "is_integer",
    "is_supported",
]


class IntegerCodec(Protocol):
    """Reads a format of integer codes with a scale, and perhaps a minimum, each few."""

    format: ClassVar[Format]
    width: ClassVar[int]  # columns that share a scale: 16 or 32
    has_minima: ClassVar[bool]

    def codes(self, matrix: Matrix) -> npt.NDArray[np.int8]:
        """Return the integer codes, i8 [n_rows, n_cols / width, width]."""
        ...

    def scales(self, matrix: Matrix) -> Floats:
        """Return the scales s, f32 [n_rows, n_cols / width]."""
        ...

    def minima(self, matrix: Matrix) -> Floats | None:
        """Return the minima m, f32 [n_rows, n_cols / width], or None for none."""
        ...


@dataclass(frozen=True, slots=True)
class BlockLayout:
    """What integer formats must share for their rows to be multiplied together."""

    width: int  # columns that share a scale
    has_minima: bool


class FloatCodec(Protocol):
    """Reads a format of plain numbers."""

    format: ClassVar[Format]

    def values(self, matrix: Matrix) -> Floats:
        """Return the values, f32 [n_rows, n_cols]."""
        ...


_INTEGER: dict[Format, IntegerCodec] = {
    codec.format: codec
    for codec in (
        Q40(),
        Q41(),
        Q50(),
        Q51(),
        Q80(),
        Q2K(),
        Q3K(),
        Q4K(),
        Q5K(),
        Q6K(),
        IQ4NL(),
        IQ4XS(),
        MXFP4(),
        NVFP4(),
    )
}
_FLOAT: dict[Format, FloatCodec] = {
    codec.format: codec for codec in (F16(), BF16(), F32())
}
_LAYOUTS: dict[Format, BlockLayout | None] = {
    **{f: BlockLayout(codec.width, codec.has_minima) for f, codec in _INTEGER.items()},
    **dict.fromkeys(_FLOAT),
}


def is_supported(block_format: Format) -> bool:
    """Say whether this version can compute with the format."""
    return block_format in _LAYOUTS


def is_integer(block_format: Format) -> bool:
    """Say whether products use coded rows (else floats); FormatUnsupported."""
    return block_layout(block_format) is not None


def integer_codec(block_format: Format) -> IntegerCodec:
    """Return the reader of an integer format, or raise FormatUnsupported."""
    try:
        return _INTEGER[block_format]
    except KeyError:
        raise FormatUnsupported(f"no integer codes in {block_format.name}") from None


def block_layout(block_format: Format) -> BlockLayout | None:
    """Return how a format's rows are cut, None for floats; FormatUnsupported."""
    try:
        return _LAYOUTS[block_format]
    except KeyError:
        raise _unsupported(block_format) from None


def float_codec(block_format: Format) -> FloatCodec:
    """Return the reader of a float format, or raise FormatUnsupported."""
    try:
        return _FLOAT[block_format]
    except KeyError:
        raise FormatUnsupported(f"no plain floats in {block_format.name}") from None


def dequantize(matrix: Matrix) -> Floats:
    """Return the weights as numbers, fl(fl(code * s) - m), f32 [n_rows, n_cols]."""
    if not is_integer(matrix.format):
        return float_codec(matrix.format).values(matrix)
    codec = integer_codec(matrix.format)
    with np.errstate(all="ignore"):
        values = codec.codes(matrix) * codec.scales(matrix)[:, :, None]
        minima = codec.minima(matrix)
        if minima is not None:
            values -= minima[:, :, None]
    return values.reshape(matrix.n_rows, matrix.n_cols)


def _unsupported(block_format: Format) -> FormatUnsupported:
    return FormatUnsupported(f"cannot compute with format {block_format.name}")
