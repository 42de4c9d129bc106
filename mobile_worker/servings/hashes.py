"""The two hashes of a leaf: of the rows that went in, and of the results.

    x_hash   = SHA-256(codes || scales || floats of the call's rows)[:16]
    out_hash = SHA-256(coded results of the call)[:16]

Codes are i8, scales and floats f32 little-endian, row after row; a form that the
dispatch does not carry adds nothing. Both ends compute them from what they hold: equal
rows and equal arithmetic give equal hashes (design/05, leaf).
"""

from hashlib import sha256

import numpy as np

from mobile_worker.arithmetic.coding import ExpertInput, Floats

__all__ = ["HASH_BYTES", "out_hash", "x_hash"]

HASH_BYTES = 16
_F32 = np.dtype("<f4")
_IS_NATIVE = np.dtype(np.float32) == _F32  # else every float is turned around


def x_hash(rows: ExpertInput) -> bytes:
    """Return the 16-byte hash of the rows of one call."""
    coded, floats = rows.coded, rows.floats
    raw = b"" if coded is None else coded.codes.tobytes() + _raw(coded.scales)
    if floats is not None:
        raw += _raw(floats)
    return sha256(raw).digest()[:HASH_BYTES]


def out_hash(results: bytes | memoryview) -> bytes:
    """Return the 16-byte hash of the coded results of one call."""
    return sha256(results).digest()[:HASH_BYTES]


def _raw(floats: Floats) -> bytes:
    return floats.tobytes() if _IS_NATIVE else floats.astype(_F32).tobytes()
