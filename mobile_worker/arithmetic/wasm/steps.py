"""The steps of the wasm modules, as bytes: 40 each, `op` first.

docs/reference/wasm-kernels.md describes them, source/steps.h declares them.
"""

import struct
from enum import IntEnum, unique
from typing import Final

from mobile_worker.arithmetic.activation_kind import Activation
from mobile_worker.arithmetic.errors import (
    ArithmeticRefused,
    CodeRefused,
    FormatUnsupported,
    NonFinite,
    ShapeMismatch,
)
from mobile_worker.arithmetic.formats.block_format import Format

__all__ = [
    "READY_BYTES",
    "STEP_BYTES",
    "activate",
    "add_bias",
    "check",
    "code",
    "multiply",
    "prepare",
    "refusal",
]

STEP_BYTES: Final = 40
READY_BYTES: Final = 112  # of 32 values made ready for products

_WORDS: Final = struct.Struct("<10I")
_ACTIVATE: Final = struct.Struct("<2I2f6I")


@unique
class _Op(IntEnum):
    PREPARE = 1
    MULTIPLY = 2
    ADD_BIAS = 3
    ACTIVATE = 4
    CODE = 5
    CHECK = 6


# Status -> the error that it stands for; 1 (an unknown step) is a fault of ours.
_REFUSALS: Final[dict[int, ArithmeticRefused]] = {
    2: FormatUnsupported("the wasm kernel cannot compute with this format"),
    3: ShapeMismatch("columns are no multiple of the format's block"),
    4: CodeRefused("a code of -128, or a scale that is negative or not finite"),
    5: NonFinite("a value on the way is not finite"),
}


def refusal(status: int) -> ArithmeticRefused:
    """Return the error that a status other than 0 stands for."""
    known = _REFUSALS.get(status)
    if known is None:
        return ArithmeticRefused(f"the wasm kernel returned status {status}")
    return type(known)(str(known))


def prepare(coded: int, n: int, n_cols: int, ready: int) -> bytes:
    """Make n coded rows at `coded` ready for products, at `ready`."""
    return _words(_Op.PREPARE, coded, n, n_cols, ready)


def multiply(
    block_format: Format,
    weights: tuple[int, int, int],
    rows: tuple[int, int],
    result: tuple[int, int],
) -> bytes:
    """Multiply rows with a matrix.

    `weights` are address, n_rows and n_cols, `rows` address and number, `result`
    address and stride in values.
    """
    return _words(_Op.MULTIPLY, block_format, *weights, *rows, *result)


def add_bias(bias: int, n_rows: int, y: int, n: int, y_stride: int) -> bytes:
    """Add n_rows values at `bias` to each of n rows at `y`."""
    return _words(_Op.ADD_BIAS, bias, n_rows, y, n, y_stride)


def activate(activation: Activation, g: int, u: int, n: int, h: int) -> bytes:
    """Gate n values at `u` by those at `g`, into `h`."""
    kind, alpha, limit = activation.kind, activation.alpha, activation.limit
    return _ACTIVATE.pack(_Op.ACTIVATE, kind, alpha, limit, g, u, n, h, 0, 0)


def code(x: int, n: int, n_cols: int, q: int, coded: int) -> bytes:
    """Code n rows at `x` in blocks of 32, into `coded`."""
    return _words(_Op.CODE, x, n, n_cols, q, coded)


def check(x: int, n: int) -> bytes:
    """Refuse n values at `x` if one is not finite."""
    return _words(_Op.CHECK, x, n)


def _words(*words: int) -> bytes:
    return _WORDS.pack(*words, *(0,) * (10 - len(words)))
