"""The two hashes of a leaf: of the rows that went in, and of the results.

    x_hash   = SHA-256(codes || scales || floats of the call's rows)[:16]
    out_hash = SHA-256(coded results of the call)[:16]

Codes are i8, scales and floats f32 little-endian, row after row; a form that the
dispatch does not carry adds nothing. Both ends compute them from what they hold: equal
rows and equal arithmetic give equal hashes (design/05, leaf).
"""

import hashlib

import numpy as np

from mobile_worker.arithmetic.coding import ExpertInput

__all__ = ["HASH_BYTES", "out_hash", "x_hash"]

HASH_BYTES = 16
_F32 = np.dtype("<f4")


def x_hash(rows: ExpertInput) -> bytes:
    """Return the 16-byte hash of the rows of one call."""
    digest = hashlib.sha256()
    if rows.coded is not None:
        digest.update(rows.coded.codes.astype(np.int8, copy=False).tobytes())
        digest.update(rows.coded.scales.astype(_F32, copy=False).tobytes())
    if rows.floats is not None:
        digest.update(rows.floats.astype(_F32, copy=False).tobytes())
    return digest.digest()[:HASH_BYTES]


def out_hash(results: bytes | memoryview) -> bytes:
    """Return the 16-byte hash of the coded results of one call."""
    return hashlib.sha256(results).digest()[:HASH_BYTES]
