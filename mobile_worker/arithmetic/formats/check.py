"""Refuse weights that are no numbers before anything is computed with them.

A file may be damaged and still have the right length. In an integer format every
scale and minimum must be finite: no infinite or not-a-number f16 d or dmin, no MXFP4
exponent 255. In a float format every weight must be. Codes are always legal. A kernel
would answer such weights with NonFinite; here they are found once, with their row.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import integer_codec, is_integer
from mobile_worker.arithmetic.matrix import Matrix, rows_of

__all__ = ["check_matrix"]

_ROWS_BYTES: Final = 1 << 20  # looked at at once; bounds memory

# Float format -> (type of a weight's bits, its exponent bits: all set is no number)
_EXPONENTS: Final = {
    Format.F32: ("<u4", 0x7F80_0000),
    Format.F16: ("<u2", 0x7C00),
    Format.BF16: ("<u2", 0x7F80),
}


def check_matrix(matrix: Matrix) -> None:
    """Refuse a matrix with a scale, minimum or weight that is no finite number.

    Raises MatrixMalformed, which names the first such row, and FormatUnsupported.
    """
    find = _scales_are_finite if is_integer(matrix.format) else _weights_are_finite
    n_rows = max(1, _ROWS_BYTES // (matrix.raw.nbytes // matrix.n_rows))
    for first in range(0, matrix.n_rows, n_rows):
        part = rows_of(matrix, first, min(first + n_rows, matrix.n_rows))
        finite = find(part)
        if not finite.all():
            what = "scale" if is_integer(matrix.format) else "weight"
            raise MatrixMalformed(
                f"row {first + int(finite.argmin())} of a {matrix.format.name} matrix "
                f"of {matrix.n_rows} x {matrix.n_cols} holds a {what} that is no "
                f"finite number"
            )


def _scales_are_finite(matrix: Matrix) -> npt.NDArray[np.bool_]:
    """Say for each row whether its scales and minima are finite, bool [n_rows]."""
    codec = integer_codec(matrix.format)
    with np.errstate(all="ignore"):
        scales, minima = codec.scales(matrix), codec.minima(matrix)
    finite = np.isfinite(scales)
    if minima is not None:
        finite &= np.isfinite(minima)
    return np.asarray(finite.all(axis=1))


def _weights_are_finite(matrix: Matrix) -> npt.NDArray[np.bool_]:
    """Say for each row whether its weights are finite, bool [n_rows]."""
    bits_type, exponent = _EXPONENTS[matrix.format]
    bits = np.frombuffer(matrix.raw, bits_type).reshape(matrix.n_rows, matrix.n_cols)
    return np.asarray(((bits & exponent) != exponent).all(axis=1))
