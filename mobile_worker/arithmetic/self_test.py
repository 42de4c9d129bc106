"""Prove at start that this machine's arithmetic is the specification's.

Fixed experts are computed over fixed rows: every supported format as gate and up and
as down, mixed with others; both activations, one with biases and one without; every
profile; a batch, and a row alone. The SHA-256 over all result bytes must be
SELF_TEST_DIGEST. A worker whose digest differs by one bit is refused by the market.
The inputs come from SHA-256 in counter mode, so any language can make them; the digest
is what the plain-Python oracle of the tests gives, not what numpy says.
"""

import hashlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.formats.block_format import (
    Format,
    block_size,
    row_bytes,
)
from mobile_worker.arithmetic.formats.codecs import is_supported
from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.profiles import Profile
from mobile_worker.arithmetic.self_test_digest import SELF_TEST_DIGEST

__all__ = [
    "FORMATS",
    "SELF_TEST_DIGEST",
    "fixed_bytes",
    "fixed_experts",
    "fixed_matrix",
    "fixed_rows",
    "self_test",
]

FORMATS: Final = tuple(each for each in Format if is_supported(each))
_N_NARROW: Final = 32
_N_WIDE: Final = 256  # a whole block of any format
_N_ROWS: Final = 9

# Integer format -> the high bytes of f16 fields in a block
_HALVES: Final[dict[Format, tuple[int, ...]]] = {
    Format.Q4_0: (1,),
    Format.Q4_1: (1, 3),
    Format.Q5_0: (1,),
    Format.Q5_1: (1, 3),
    Format.Q8_0: (1,),
    Format.Q2_K: (81, 83),
    Format.Q3_K: (109,),
    Format.Q4_K: (1, 3),
    Format.Q5_K: (1, 3),
    Format.Q6_K: (209,),
    Format.IQ4_NL: (1,),
    Format.IQ4_XS: (1,),
}


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
    values, every = block_size(block_format)
    if block_format is Format.F32:
        numbers = fixed_rows(label, n_rows, n_cols) / np.float32(16)
        raw[:] = numbers.astype("<f4").tobytes()
    elif block_format is Format.F16:  # exponents that keep weights within (-1, 1)
        raw[1::2] = bytes(b & 0xB9 for b in raw[1::2])
    elif block_format is Format.BF16:  # within (-2, 2)
        raw[1::2] = bytes(0x3C | b & 0x83 for b in raw[1::2])
    elif block_format is Format.MXFP4:  # 2^-8 to 2^-1
        raw[0::every] = bytes(0x78 | b & 7 for b in raw[0::every])
    elif block_format is Format.NVFP4:  # below 1
        for at in range(4):
            raw[at::every] = bytes(b & 0x3F for b in raw[at::every])
    else:  # 2^-7 to 2^-5, or 2^-11 to 2^-9 where a factor multiplies it
        least = 0x20 if values == 32 else 0x10
        for at in _HALVES[block_format]:
            raw[at::every] = bytes(least | b & 0x87 for b in raw[at::every])
    return Matrix(
        format=block_format, n_rows=n_rows, n_cols=n_cols, raw=memoryview(bytes(raw))
    )


def self_test(kernel: Kernel) -> bytes:
    """Return the SHA-256, 32 bytes, over the fixed experts' results.

    For each of the two widths first the codes and scales of the rows; then, for each
    expert, the results of all rows in each profile, and of the first row alone in R16.
    """
    digest = hashlib.sha256()
    inputs: dict[int, ExpertInput] = {}
    for n_embd in (_N_NARROW, _N_WIDE):
        x = fixed_rows(f"p2pmoe self-test rows {n_embd}", _N_ROWS, n_embd)
        coded = kernel.code_rows(x)
        digest.update(coded.codes.tobytes())
        digest.update(coded.scales.astype("<f4").tobytes())
        inputs[n_embd] = ExpertInput(coded=coded, floats=x)
    for weights in fixed_experts():
        rows = inputs[weights.gate.n_cols]
        for profile in Profile:
            digest.update(kernel.expert(weights, rows, profile))
        alone = rows.take(np.zeros(1, np.int64))
        digest.update(kernel.expert(weights, alone, Profile.R16))
    return digest.digest()


def fixed_experts() -> Iterator[ExpertWeights]:
    """Yield the experts of the self-test, four for each format in turn.

    Two shapes, so that each format's widest block fits: [32, 256] gate and up in the
    format, down in Q8_0; [256, 32] gate in Q8_0 and up in Q4_0, down in the format.
    """
    wide, narrow = (_N_NARROW, _N_WIDE), (_N_WIDE, _N_NARROW)
    for block_format in FORMATS:
        label = f"p2pmoe self-test {block_format.name}"
        down = fixed_matrix(f"{label} last", Format.Q8_0, *narrow)
        first = [fixed_matrix(f"{label} {p}", block_format, *wide) for p in ("g", "u")]
        yield from _with_activations(label, first[0], first[1], down)
        gate = fixed_matrix(f"{label} gate", Format.Q8_0, *narrow)
        up = fixed_matrix(f"{label} up", Format.Q4_0, *narrow)
        down = fixed_matrix(f"{label} down", block_format, *wide)
        yield from _with_activations(label, gate, up, down)


def _with_activations(
    label: str, gate: Matrix, up: Matrix, down: Matrix
) -> Iterator[ExpertWeights]:
    """Yield a plain SWIGLU expert, and one of SWIGLU_OAI with biases."""
    kind = ActivationKind.SWIGLU
    yield ExpertWeights(gate=gate, up=up, down=down, activation=Activation(kind=kind))
    yield ExpertWeights(
        gate=gate,
        up=up,
        down=down,
        activation=Activation(kind=ActivationKind.SWIGLU_OAI),
        gate_bias=fixed_rows(f"{label} gate bias", 1, gate.n_rows)[0],
        up_bias=fixed_rows(f"{label} up bias", 1, up.n_rows)[0],
        down_bias=fixed_rows(f"{label} down bias", 1, down.n_rows)[0],
    )
