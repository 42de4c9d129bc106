"""The two hashes of a leaf: of the rows that went in, and of the results.

    x_hash   = SHA-256(codes || scales || floats of the call's rows)[:16]
    out_hash = SHA-256(coded results of the call)[:16]

Codes are i8, scales and floats f32 little-endian, row after row; a form that the
dispatch does not carry adds nothing. Both ends compute them from what they hold: equal
rows and equal arithmetic give equal hashes (design/05, leaf).
"""

from hashlib import sha256

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import ExpertInput

__all__ = ["HASH_BYTES", "out_hash", "x_hash"]

HASH_BYTES = 16
_I8 = np.dtype(np.int8)
_F32 = np.dtype("<f4")


def x_hash(rows: ExpertInput) -> bytes:
    """Return the 16-byte hash of the rows of one call."""
    raw = b""
    if rows.coded is not None:
        raw = _raw(rows.coded.codes, _I8) + _raw(rows.coded.scales, _F32)
    if rows.floats is not None:
        raw += _raw(rows.floats, _F32)
    return sha256(raw).digest()[:HASH_BYTES]


def out_hash(results: bytes | memoryview) -> bytes:
    """Return the 16-byte hash of the coded results of one call."""
    return sha256(results).digest()[:HASH_BYTES]


def _raw(values: npt.NDArray[np.generic], dtype: np.dtype[np.generic]) -> bytes:
    return (values if values.dtype == dtype else values.astype(dtype)).tobytes()
