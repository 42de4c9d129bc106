"""The rows of a canary: from a seed and an expert, the same everywhere.

Normative, with golden bytes in tests/vectors/canary.json:

    stream = SHAKE-256(seed || packed expert, u32 big-endian), as many bytes as follow
    codes  = the first n * n_embd bytes as i8, row after row; -128 becomes 0
    scales = (256 + b) / 2^15 of each of the n * n_embd / 32 bytes b after them
    floats = code * scale

A scale is 2^-7 times 1 to 2, and a code has 7 bits, so each float is exact in f32 and
below 2 in size. Integer formats take codes and scales, float formats the floats; both
are given. Who does not know the seed cannot compute ahead, and who has only some of the
experts of a seed has computed nothing of the others. Pure.
"""

import hashlib

import numpy as np

from mobile_worker.arithmetic.coding import BLOCK, CodedRows, ExpertInput
from mobile_worker.arithmetic.errors import ShapeMismatch
from mobile_worker.expert_id import ExpertId

__all__ = ["MAX_CANARY_ROWS", "canary_rows"]

MAX_CANARY_ROWS = 64
_LEAST_MANTISSA = 256
_SCALE_UNIT = np.float32(2.0**-15)


def canary_rows(seed: bytes, expert: ExpertId, n_rows: int, n_embd: int) -> ExpertInput:
    """Return the rows of one expert for a seed, both coded and as floats.

    Raises:
        ShapeMismatch: rows of this width cannot be coded, or too many, or none.
    """
    if not 1 <= n_rows <= MAX_CANARY_ROWS:
        raise ShapeMismatch(f"{n_rows} canary rows, not 1 to {MAX_CANARY_ROWS}")
    if n_embd <= 0 or n_embd % BLOCK:
        raise ShapeMismatch(f"rows of {n_embd} values are no multiple of {BLOCK}")
    n_codes, n_scales = n_rows * n_embd, n_rows * n_embd // BLOCK
    name = seed + expert.packed.to_bytes(4, "big")
    stream = np.frombuffer(hashlib.shake_256(name).digest(n_codes + n_scales), np.uint8)
    codes = stream[:n_codes].view(np.int8).reshape(n_rows, n_embd).copy()
    codes[codes == -128] = 0
    mantissas = stream[n_codes:].astype(np.float32) + np.float32(_LEAST_MANTISSA)
    scales = (mantissas * _SCALE_UNIT).reshape(n_rows, -1)
    floats = codes.astype(np.float32) * np.repeat(scales, BLOCK, axis=1)
    return ExpertInput(coded=CodedRows(codes=codes, scales=scales), floats=floats)
