"""Rows from the bytes that open a leaf, and back.

Contract: the bytes are what `x_hash` is taken over (`mobile_worker.servings.hashes`):
codes i8 and scales f32 of all rows, or floats f32, or the one after the other. For a
number of rows and a width these have three different lengths, so the length alone says
which it is. Everything is checked before any arithmetic, as for rows of a dispatch.
Pure.
"""

import numpy as np

from mobile_worker.arithmetic.coding import (
    BLOCK,
    CodedRows,
    ExpertInput,
    Floats,
    check_coded,
)
from mobile_worker.arithmetic.errors import NonFinite, ShapeMismatch

__all__ = ["opened_bytes", "rows_from"]

_I8 = np.dtype(np.int8)
_F32 = np.dtype("<f4")


def rows_from(opened: bytes, n_rows: int, n_embd: int) -> ExpertInput:
    """Return the rows that opened bytes stand for.

    Args:
        opened: what the leaf's `x_hash` is the hash of.
        n_rows: rows of the call, from the leaf.
        n_embd: width of the model.

    Raises:
        ShapeMismatch: so many rows of this width have no such length.
        CodeRefused: a code or scale that the block coding cannot produce.
        NonFinite: a float that is not finite.
    """
    n_codes = n_rows * n_embd
    coded_bytes = n_codes + n_codes // BLOCK * _F32.itemsize
    float_bytes = n_codes * _F32.itemsize
    has_codes = len(opened) in {coded_bytes, coded_bytes + float_bytes}
    has_floats = len(opened) in {float_bytes, coded_bytes + float_bytes}
    if not (has_codes or has_floats) or n_embd % BLOCK:
        raise ShapeMismatch(
            f"{len(opened)} opened bytes are no {n_rows} rows of {n_embd} values"
        )
    coded = floats = None
    if has_codes:
        codes = np.frombuffer(opened, _I8, n_codes).reshape(n_rows, n_embd)
        scales = np.frombuffer(opened, _F32, n_codes // BLOCK, n_codes)
        coded = CodedRows(codes=codes, scales=_native(scales).reshape(n_rows, -1))
        check_coded(coded)
    if has_floats:
        values = np.frombuffer(opened, _F32, offset=len(opened) - float_bytes)
        floats = _native(values).reshape(n_rows, n_embd)
        if not np.isfinite(floats).all():
            raise NonFinite("an opened row is not finite")
    return ExpertInput(coded=coded, floats=floats)


def opened_bytes(rows: ExpertInput) -> bytes:
    """Return what the `x_hash` of these rows is taken over."""
    parts = []
    if rows.coded is not None:
        parts += [rows.coded.codes.tobytes(), rows.coded.scales.astype(_F32).tobytes()]
    if rows.floats is not None:
        parts.append(rows.floats.astype(_F32).tobytes())
    return b"".join(parts)


def _native(values: Floats) -> Floats:
    return values.astype(np.float32, copy=False)
