"""How an expert's results are coded: the profile of a session.

Specification 02. A row of `n_embd` values becomes, one row after the other:

    R32   n_embd f32, little-endian: the floats unchanged
    R16   n_embd i16 codes (q = 32767), then n_embd / 32 f32 scales: 68 bytes per 32
    R8    n_embd i8 codes (q = 127), then n_embd / 32 f32 scales: 36 bytes per 32

The coding is part of the arithmetic: a result computed at home is coded and decoded
too (`round_result`), so values do not depend on where an expert ran.
"""

from enum import IntEnum, unique
from typing import Final

import numpy as np

from mobile_worker.arithmetic.coding import BLOCK, Floats, block_codes
from mobile_worker.arithmetic.errors import CodeRefused, NonFinite, ShapeMismatch

__all__ = [
    "Profile",
    "check_decodable",
    "decode_result",
    "encode_result",
    "result_row_bytes",
    "round_result",
]


@unique
class Profile(IntEnum):
    """How results are coded; the value is the number on the wire."""

    R32 = 0
    R16 = 1
    R8 = 2


# Profile -> (q, type of a code)
_CODES: Final[dict[Profile, tuple[int, np.dtype[np.signedinteger]]]] = {
    Profile.R16: (32767, np.dtype("<i2")),
    Profile.R8: (127, np.dtype("i1")),
}
_F32: Final = np.dtype("<f4")


def result_row_bytes(profile: Profile, n_embd: int) -> int:
    """Return the bytes of one coded row; ShapeMismatch if n_embd % 32 != 0."""
    if n_embd <= 0 or n_embd % BLOCK:
        raise ShapeMismatch(f"rows of {n_embd} values are no multiple of {BLOCK}")
    if profile is Profile.R32:
        return n_embd * 4
    return n_embd * _CODES[profile][1].itemsize + n_embd // BLOCK * 4


def encode_result(y: Floats, profile: Profile) -> bytes:
    """Code results `y` f32 [n, n_embd], rows one after the other.

    Raises NonFinite if a value is not finite, or would not be once it is decoded.
    """
    n, n_embd = y.shape
    width = result_row_bytes(profile, n_embd)
    if profile is Profile.R32:
        _refuse_non_finite(y)
        return y.astype(_F32, copy=False).tobytes()
    q, code_type = _CODES[profile]
    codes, scales = block_codes(y, q)
    check_decodable(scales, profile)
    split = width - n_embd // BLOCK * 4
    coded = np.empty((n, width), np.uint8)
    coded[:, :split] = codes.reshape(n, n_embd).astype(code_type).view(np.uint8)
    coded[:, split:] = scales[:, :, 0].astype(_F32, copy=False).view(np.uint8)
    return coded.tobytes()


def check_decodable(scales: Floats, profile: Profile) -> None:
    """Refuse scales of R16 or R8 with which a code is more than there is; NonFinite.

    The largest code of a block is q, and fl(q * scale) may round up to infinity.
    """
    q, _ = _CODES[profile]
    largest = np.maximum.reduce(scales, axis=None, initial=np.float32(0))
    with np.errstate(over="ignore"):
        if not np.isfinite(largest * np.float32(q)):
            raise NonFinite("a result is too large to be coded")


def decode_result(
    coded: bytes | bytearray | memoryview, profile: Profile, n_rows: int, n_embd: int
) -> Floats:
    """Return the values f32 [n_rows, n_embd] of coded rows.

    Raises ShapeMismatch on another length, CodeRefused on a code below -q or a scale
    that is negative or not finite, NonFinite on an R32 value that is not finite.
    """
    width = result_row_bytes(profile, n_embd)
    if len(coded) != n_rows * width:
        raise ShapeMismatch(
            f"{n_rows} rows of {profile.name} are {n_rows * width} bytes, "
            f"not {len(coded)}"
        )
    if profile is Profile.R32:
        y = np.frombuffer(coded, _F32).astype(np.float32).reshape(n_rows, n_embd)
        _refuse_non_finite(y)
        return y
    q, code_type = _CODES[profile]
    split = width - n_embd // BLOCK * 4
    rows = np.frombuffer(coded, np.uint8).reshape(n_rows, width)
    codes = np.ascontiguousarray(rows[:, :split]).view(code_type)
    scales = np.ascontiguousarray(rows[:, split:]).view(_F32).astype(np.float32)
    if n_rows and codes.min() < -q:
        raise CodeRefused(f"result code {codes.min()} cannot occur in {profile.name}")
    if not (np.isfinite(scales).all() and (scales >= 0).all()):
        raise CodeRefused("a result scale is negative or not finite")
    blocks = codes.astype(np.float32).reshape(n_rows, n_embd // BLOCK, BLOCK)
    with np.errstate(over="ignore"):
        y = (blocks * scales[:, :, None]).reshape(n_rows, n_embd)
    _refuse_non_finite(y)
    return y


def round_result(y: Floats, profile: Profile) -> Floats:
    """Return decode_result(encode_result(y)) without the bytes between; NonFinite."""
    if profile is Profile.R32:
        _refuse_non_finite(y)
        return y
    codes, scales = block_codes(y, _CODES[profile][0])
    codes *= scales
    _refuse_non_finite(codes)
    return codes.reshape(y.shape)


def _refuse_non_finite(y: Floats) -> None:
    if not np.isfinite(y).all():
        raise NonFinite("a result is not finite")
