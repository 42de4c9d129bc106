"""What the golden bytes of the arithmetic are made from: rows and weights, by label.

All bytes come from SHA-256 in counter mode, so they are the same each time. A *kind* of
weights or rows says what is in the scales:

    modest      numbers as a model has them
    zeros       nothing but zeros
    subnormal   subnormal f16 and f32 scales, zeros of both signs, an f32 scale of 0
    largest     the greatest finite scales and codes whose sums stay finite
    ties        scales and sums that lie half way between two floats
"""

import hashlib
import itertools
import struct

from tests.support import arithmetic_oracle as oracle
from tests.support.format_oracle import BLOCK_BYTES, FLOAT_BYTES, HALF_FIELDS, f32

__all__ = ["KINDS", "coded_rows", "floats", "matrix", "pack", "split"]

KINDS = ("modest", "zeros", "subnormal", "largest", "ties")

_HALVES = {
    "subnormal": (0x0001, 0x03FF, 0x8001, 0x83FF, 0x0000, 0x8000, 0x0400),
    "largest": (0x7BFF, 0xFBFF),
    "ties": (0x3C00, 0x3C01, 0xBC01),
}
_MXFP4_EXPONENTS = {"subnormal": (0, 1, 2, 9), "largest": (254, 253), "ties": (128,)}
_NVFP4_SCALES = {
    "subnormal": (0x00, 0x01, 0x07, 0x80, 0x85, 0x08),
    "largest": (0x7E, 0xFF, 0x7F, 0xFE),
    "ties": (0x38, 0x39, 0x3B),
}
_F32_SPECIAL = {
    "subnormal": (2.0**-149, -(2.0**-140), 2.0**-126, 0.0, -0.0, 2.0**-130),
    "largest": (2.0**120, -3.0e36, 1.5e36),
    "ties": (1 + 2.0**-12, -1 - 3 * 2.0**-12, 1 + 5 * 2.0**-12, 2.0**24, 1.0),
}
_F16_SPECIAL = {
    "subnormal": (0x0001, 0x83FF, 0x0400, 0x0000, 0x8000, 0x0001),
    "largest": (0x7BFF, 0xFBFF),
    "ties": (0x3C01, 0xBC03, 0x3C05, 0x7800, 0x3C00),
}
_BF16_SPECIAL = {
    "subnormal": (0x0001, 0x8040, 0x0080, 0x0000, 0x8000),
    "largest": (0x7B80, 0xFB81),
    "ties": (0x3F81, 0xBF83, 0x3F85, 0x4B80, 0x3F80),
}
_X_SCALES = {
    "subnormal": (2.0**-149, 2.0**-127, 2.0**-110, 0.0, 2.0**-100, 1.75 * 2.0**-121),
    "largest": (2.0**76, 1.5 * 2.0**75),
    "ties": (1.0, 1 + 512 * 2.0**-23, 64.0, 1 + 1536 * 2.0**-23, 4096.0),
}
_X_SPECIAL = {
    "subnormal": (2.0**-149, -(2.0**-127), 1.0, 2.0**-100, -0.0, 2.0**-10),
    "largest": (16.0, -16.0, 15.0),
    "ties": (1 + 2.0**-12, 1 + 2.0**-14, 1 + 2.0**-17, 1.0, -1.0),
}


def stream(label, n):
    """Return n bytes of SHA-256 in counter mode."""
    blocks = -(-n // 32)
    return b"".join(
        hashlib.sha256(f"{label} {i}".encode()).digest() for i in range(blocks)
    )[:n]


def floats(label, n, scale=2.0**-12):
    """Return n values around 0: 16-bit integers times a scale."""
    return [f32(v * scale) for v in struct.unpack(f"<{n}h", stream(label, 2 * n))]


def pack(values):
    """Return f32 values, little-endian, in hex."""
    return struct.pack(f"<{len(values)}f", *values).hex()


def split(values, n):
    """Cut into pieces of n."""
    return [values[i : i + n] for i in range(0, len(values), n)]


def matrix(name, kind, label, shape):
    """Return the raw rows of a matrix [n_rows, n_cols] in a format."""
    n_rows, n_cols = shape
    if name in FLOAT_BYTES:
        return split(
            _floats(name, kind, label, n_rows * n_cols), n_cols * FLOAT_BYTES[name]
        )
    values, size = BLOCK_BYTES[name]
    raw = stream(label, size * n_rows * n_cols // values)
    if kind == "zeros":
        raw = bytes(len(raw))
    blocks = split(bytearray(raw), size)
    if kind != "zeros":
        for number, block in enumerate(blocks):
            _set_scales(name, kind, block, number)
    if kind == "largest" and name == "Q8_0":
        blocks[0][2:] = b"\x80" * 32  # weight codes of -128 are legal
    return split(b"".join(map(bytes, blocks)), size * n_cols // values)


def _set_scales(name, kind, block, number):
    """Write the scales of one block that is random so far."""
    if name == "MXFP4":
        block[0] = 0x78 | block[0] & 7
        if kind != "modest":
            block[0] = _cycle(_MXFP4_EXPONENTS[kind], number)
    elif name == "NVFP4":
        for group in range(4):
            block[group] &= 0x3F
            if kind != "modest":
                block[group] = _cycle(_NVFP4_SCALES[kind], 4 * number + group)
    for place, at in enumerate(HALF_FIELDS[name]):
        (bits,) = struct.unpack_from("<H", block, at)
        bits = bits & 0x87FF | (0x2000 if len(block) < 80 else 0x1000)
        if kind != "modest":
            bits = _cycle(_HALVES[kind], number + place)
        struct.pack_into("<H", block, at, bits)


def _floats(name, kind, label, n):
    """Return the bytes of n float weights."""
    if kind == "zeros":
        return bytes(n * FLOAT_BYTES[name])
    special = {"F32": _F32_SPECIAL, "F16": _F16_SPECIAL, "BF16": _BF16_SPECIAL}[name]
    if name == "F32":
        values = floats(label, n)
        if kind != "modest":
            values[: n // 2] = itertools.islice(itertools.cycle(special[kind]), n // 2)
        return struct.pack(f"<{n}f", *values)
    bits = list(struct.unpack(f"<{n}H", stream(label, 2 * n)))
    modest = (0xB9FF, 0) if name == "F16" else (0x83FF, 0x3C00)
    bits = [each & modest[0] | modest[1] for each in bits]
    if kind != "modest":
        bits[: n // 2] = itertools.islice(itertools.cycle(special[kind]), n // 2)
    return struct.pack(f"<{n}H", *bits)


def coded_rows(name, kind, label, n, n_cols):
    """Return n rows of input, each (values or None, (codes, scales) or None)."""
    rows = []
    for row in range(n):
        own = f"{label} {row}"
        values = floats(own, n_cols)
        if kind == "zeros":
            values = [0.0] * n_cols if row % 2 == 0 else values
        elif kind != "modest" and name in FLOAT_BYTES:
            special = itertools.cycle(_X_SPECIAL[kind])
            values = [next(special) if v > 0 else -next(special) for v in values]
        if name in FLOAT_BYTES:
            rows.append((values, None))
        elif kind in {"modest", "zeros"}:
            rows.append((None, oracle.quantize_row(values, 127)))
        else:
            rows.append((None, _explicit(name, kind, own, row, n_cols)))
    return rows


def _explicit(name, kind, label, row, n_cols):
    """Return codes and scales that a coding gives for no everyday row."""
    codes = [max(-127, v) for v in struct.unpack(f"{n_cols}b", stream(label, n_cols))]
    if kind == "largest":
        codes = [127 if v > 0 else -127 for v in codes] if row % 2 else [127] * n_cols
    scales = [_cycle(_X_SCALES[kind], row + b) for b in range(n_cols // 32)]
    if kind == "largest" and name == "MXFP4":
        scales = [2.0**-20] * len(scales)
    return codes, scales


def _cycle(values, number):
    return values[number % len(values)]
