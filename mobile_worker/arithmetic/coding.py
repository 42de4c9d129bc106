"""Block coding of rows: 32 values become 32 integer codes and one f32 scale.

Specification 02, "Block coding of rows". Per block: amax = max |x|; below 2^-100 the
scale is 0 and so are the codes; else scale = fl(amax / q) and
code = rint(fl(x * fl(1 / scale))), clamped to [-q, q]; decoded value fl(code * scale).
A non-finite value is an error, not a number. Rows never influence each other.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.errors import CodeRefused, NonFinite, ShapeMismatch

__all__ = [
    "ACTIVATION_Q",
    "BLOCK",
    "CodedRows",
    "ExpertInput",
    "Floats",
    "block_codes",
    "check_chosen",
    "check_coded",
    "check_floats",
    "check_input",
    "quantize_rows",
]

Floats = npt.NDArray[np.float32]

BLOCK: Final = 32
ACTIVATION_Q: Final = 127
_TINY: Final = np.float32(2.0**-100)
_ONE: Final = np.float32(1.0)
_I8: Final = np.dtype(np.int8)
_F32: Final = np.dtype(np.float32)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CodedRows:
    """Activations in blocks of 32: codes in [-127, 127] and a scale a block."""

    codes: npt.NDArray[np.int8]  # [n, n_cols]
    scales: Floats  # [n, n_cols / 32]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ExpertInput:
    """Rows going into matrices: coded for integer formats, floats for float formats.

    At least one is there; where both are, they stand for the same rows.
    """

    coded: CodedRows | None = None
    floats: Floats | None = None  # [n, n_embd]

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        if self.coded is not None:
            return len(self.coded.codes)
        if self.floats is not None:
            return len(self.floats)
        return 0

    def take(self, rows: npt.NDArray[np.int64]) -> "ExpertInput":
        """Return the input of these rows alone, in this order; ShapeMismatch."""
        check_chosen(rows, self.n_rows)
        coded = self.coded
        return ExpertInput(
            coded=None
            if coded is None
            else CodedRows(codes=coded.codes[rows], scales=coded.scales[rows]),
            floats=None if self.floats is None else self.floats[rows],
        )


def block_codes(x: Floats, q: int) -> tuple[Floats, Floats]:
    """Return codes as f32 [n, n_cols / 32, 32] and scales f32 [n, n_cols / 32, 1].

    Raises NonFinite if a value of `x` [n, n_cols] is infinite or not a number, and
    ShapeMismatch if its columns are no multiple of 32.
    """
    check_floats(x)
    n, n_cols = x.shape
    blocks = x.reshape(n, n_cols // BLOCK, BLOCK)
    amax: Floats = np.maximum.reduce(np.abs(blocks), axis=2, keepdims=True)
    if not np.isfinite(amax).all():
        raise NonFinite("a row to be coded holds a non-finite value")
    scales = amax / np.float32(q)
    small = amax < _TINY
    if small.any():
        scales[small] = 0.0
        inverse = np.zeros_like(scales)
        np.divide(_ONE, scales, out=inverse, where=~small)
    else:
        inverse = _ONE / scales
    codes = blocks * inverse
    np.rint(codes, out=codes)
    np.minimum(codes, np.float32(q), out=codes)
    np.maximum(codes, np.float32(-q), out=codes)
    codes += np.float32(0.0)  # -0 becomes 0: a code is an integer
    return codes, scales


def quantize_rows(x: Floats) -> CodedRows:
    """Code activations `x` f32 [n, n_cols] with q = 127; NonFinite, ShapeMismatch."""
    codes, scales = block_codes(x, ACTIVATION_Q)
    return CodedRows(
        codes=codes.reshape(x.shape).astype(np.int8), scales=scales[:, :, 0]
    )


def check_floats(x: Floats) -> None:
    """Refuse what is no f32 [n, n_cols] in whole blocks; ShapeMismatch."""
    if x.ndim != 2 or x.dtype != _F32:
        raise ShapeMismatch(
            f"rows must be float32 [n, n_cols], not {x.dtype} {x.ndim}D"
        )
    if x.shape[1] % BLOCK:
        raise ShapeMismatch(f"rows of {x.shape[1]} values are no multiple of {BLOCK}")


def check_chosen(rows: npt.NDArray[np.int64], n: int) -> None:
    """Refuse to pick rows that are not among `n`, negative ones too; ShapeMismatch."""
    if not rows.size:
        return
    least = np.minimum.reduce(rows, axis=None)
    greatest = np.maximum.reduce(rows, axis=None)
    if least < 0 or greatest >= n:
        strange = least if least < 0 else greatest
        raise ShapeMismatch(f"there is no row {strange} among {n} rows")


def check_input(rows: ExpertInput) -> None:
    """Refuse kinds of another type or shape, or that do not belong together.

    Raises ShapeMismatch. The codes and scales themselves: see `check_coded`.
    """
    if rows.coded is not None:
        _check_coded_shape(rows.coded)
    if rows.floats is None:
        return
    check_floats(rows.floats)
    if rows.coded is not None and rows.coded.codes.shape != rows.floats.shape:
        raise ShapeMismatch(
            f"codes {list(rows.coded.codes.shape)} and floats "
            f"{list(rows.floats.shape)} differ"
        )


def _check_coded_shape(coded: CodedRows) -> None:
    codes, scales = coded.codes, coded.scales
    if codes.ndim != 2 or codes.dtype != _I8 or scales.dtype != _F32:
        raise ShapeMismatch("coded rows must be int8 [n, n_cols] with float32 scales")
    n, n_cols = codes.shape
    if n_cols % BLOCK or scales.shape != (n, n_cols // BLOCK):
        raise ShapeMismatch(
            f"codes [{n}, {n_cols}] need scales [{n}, {n_cols // BLOCK}], "
            f"not {list(scales.shape)}"
        )


def check_coded(coded: CodedRows) -> None:
    """Refuse rows from outside that the coding cannot have produced.

    Raises CodeRefused for a code of -128 and for a scale that is negative or not
    finite, ShapeMismatch if codes and scales do not belong together.
    """
    _check_coded_shape(coded)
    codes, scales = coded.codes, coded.scales
    if not codes.size:
        return
    if np.minimum.reduce(codes, axis=None) == -ACTIVATION_Q - 1:
        raise CodeRefused("activation code -128 cannot occur")
    least = np.minimum.reduce(scales, axis=None)  # NaN if there is one
    if not (least >= 0 and np.maximum.reduce(scales, axis=None) < np.inf):
        raise CodeRefused("an activation scale is negative or not finite")
