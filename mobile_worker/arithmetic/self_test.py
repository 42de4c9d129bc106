"""Prove at start that this machine's arithmetic is the specification's.

Fixed experts in every supported format, activation and profile are computed over fixed
rows; the SHA-256 over all result bytes must be SELF_TEST_DIGEST. A worker whose digest
differs by one bit is refused by the market. The inputs come from SHA-256 in counter
mode, so any language can make them.
"""

import hashlib
import itertools
from typing import Final

import numpy as np

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, Floats, quantize_rows
from mobile_worker.arithmetic.formats.block_format import Format, block_size, row_bytes
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST

__all__ = [
    "FORMATS",
    "SELF_TEST_DIGEST",
    "fixed_bytes",
    "fixed_matrix",
    "fixed_rows",
    "self_test",
]

FORMATS: Final = (Format.F32, Format.F16, Format.Q4_0, Format.Q8_0)
_N_EMBD: Final = 64
_N_FF: Final = 96
_N_ROWS: Final = 3


def fixed_bytes(label: str, n: int) -> bytes:
    """Return n bytes of SHA-256(label || u32 little-endian counter from 0)."""
    digests = (
        hashlib.sha256(label.encode() + i.to_bytes(4, "little")).digest()
        for i in range(-(-n // 32))
    )
    return b"".join(digests)[:n]


def fixed_rows(label: str, n: int, n_cols: int) -> Floats:
    """Return f32 [n, n_cols]: 16-bit integers around 0, divided by 4096."""
    integers = np.frombuffer(fixed_bytes(label, 2 * n * n_cols), "<i2")
    return (integers.astype(np.float32) / np.float32(4096)).reshape(n, n_cols)


def fixed_matrix(label: str, block_format: Format, n_rows: int, n_cols: int) -> Matrix:
    """Return a matrix of fixed bytes, with numbers and scales of modest size."""
    raw = bytearray(fixed_bytes(label, n_rows * row_bytes(block_format, n_cols)))
    if block_format is Format.F32:
        values = fixed_rows(label, n_rows, n_cols) / np.float32(16)
        raw[:] = values.astype("<f4").tobytes()
    elif is_integer(block_format):
        _, every = block_size(block_format)
        raw[1::every] = bytes(0x20 | (b & 0x87) for b in raw[1::every])
    else:  # F16: exponents that keep values within (-1, 1)
        raw[1::2] = bytes(b & 0xB9 for b in raw[1::2])
    return Matrix(
        format=block_format, n_rows=n_rows, n_cols=n_cols, raw=memoryview(bytes(raw))
    )


def self_test(kernel: Kernel) -> bytes:
    """Return the SHA-256, 32 bytes, over the fixed experts' results."""
    digest = hashlib.sha256()
    x = fixed_rows("p2pmoe self-test rows", _N_ROWS, _N_EMBD)
    rows = ExpertInput(coded=quantize_rows(x), floats=x)
    for block_format, kind in itertools.product(FORMATS, ActivationKind):
        weights = _fixed_expert(block_format, Activation(kind=kind))
        for profile in Profile:
            digest.update(kernel.expert(weights, rows, profile))
    return digest.digest()


def _fixed_expert(block_format: Format, activation: Activation) -> ExpertWeights:
    label = f"p2pmoe self-test {block_format.name}"
    return ExpertWeights(
        gate=fixed_matrix(f"{label} gate", block_format, _N_FF, _N_EMBD),
        up=fixed_matrix(f"{label} up", block_format, _N_FF, _N_EMBD),
        down=fixed_matrix(f"{label} down", block_format, _N_EMBD, _N_FF),
        activation=activation,
    )
