"""Specification 02 once more, in plain Python floats: the oracle of the arithmetic.

Each operation is done in binary64 and rounded to binary32 at once. For +, -, *, / and
sqrt of binary32 values that gives the correctly rounded binary32 result (Figueroa,
"When is double rounding innocuous?", 1995). Nothing here uses numpy; rows are lists.
"""

import math
import struct

__all__ = [
    "activate",
    "decode_row",
    "encode_row",
    "exp",
    "expert_row",
    "f32",
    "lane_dot",
    "lane_sum",
    "product_row",
    "quantize_row",
    "read_row",
    "sigmoid",
]

INTEGER = {"Q4_0": 18, "Q8_0": 34}  # format -> bytes of a block of 32
FLOAT = {"F16": ("e", 2), "F32": ("f", 4)}
Q_OF = {"R16": (32767, "h"), "R8": (127, "b")}


def f32(value):
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def exp(z):
    z = min(max(z, -87.0), 88.0)
    n = float(round(f32(z * f32(1.44269504))))
    r = f32(z - f32(n * 0.693359375))
    r = f32(r - f32(n * f32(-2.12194440e-4)))
    p = f32(1.9875691500e-4)
    for c in (
        1.3981999507e-3,
        8.3334519073e-3,
        4.1665795894e-2,
        1.6666665459e-1,
        5.0000001201e-1,
    ):
        p = f32(f32(p * r) + f32(c))
    y = f32(f32(f32(p * f32(r * r)) + r) + 1.0)
    return f32(y * 2.0**n)


def sigmoid(z):
    return f32(1.0 / f32(1.0 + exp(-z)))


def quantize_row(x, q):
    """Return (codes, scales) of a row whose length is a multiple of 32."""
    codes, scales = [], []
    for start in range(0, len(x), 32):
        block = x[start : start + 32]
        amax = max(abs(v) for v in block)
        if amax < 2.0**-100:
            scales.append(0.0)
            codes += [0] * 32
            continue
        scale = f32(amax / q)
        inverse = f32(1.0 / scale)
        scales.append(scale)
        codes += [max(-q, min(q, round(f32(v * inverse)))) for v in block]
    return codes, scales


def encode_row(y, profile):
    if profile == "R32":
        return struct.pack(f"<{len(y)}f", *y)
    q, letter = Q_OF[profile]
    codes, scales = quantize_row(y, q)
    return struct.pack(f"<{len(codes)}{letter}{len(scales)}f", *codes, *scales)


def decode_row(row, profile, n):
    if profile == "R32":
        return list(struct.unpack(f"<{n}f", row))
    values = struct.unpack(f"<{n}{Q_OF[profile][1]}{n // 32}f", row)
    return [f32(values[i] * values[n + i // 32]) for i in range(n)]


def read_row(name, raw):
    """Return (codes, scales) of an integer row, or the values of a float row."""
    if name in FLOAT:
        letter, size = FLOAT[name]
        return list(struct.unpack(f"<{len(raw) // size}{letter}", raw))
    codes, scales = [], []
    for start in range(0, len(raw), INTEGER[name]):
        block = raw[start : start + INTEGER[name]]
        scales.append(struct.unpack("<e", block[:2])[0])
        if name == "Q8_0":
            codes += struct.unpack("<32b", block[2:])
        else:
            codes += [(byte & 15) - 8 for byte in block[2:]]
            codes += [(byte >> 4) - 8 for byte in block[2:]]
    return codes, scales


def lane_sum(values):
    lanes = [0.0] * 8
    for k, value in enumerate(values):
        lanes[k % 8] = f32(lanes[k % 8] + value)
    pairs = [f32(lanes[i] + lanes[i + 1]) for i in (0, 2, 4, 6)]
    return f32(f32(pairs[0] + pairs[1]) + f32(pairs[2] + pairs[3]))


def lane_dot(a, b):
    return lane_sum([f32(v * w) for v, w in zip(a, b, strict=True)])


def product_row(name, rows, x, coded):
    """Multiply a matrix (a list of raw rows) with one input row."""
    if name in FLOAT:
        return [lane_dot(read_row(name, raw), x) for raw in rows]
    codes, scales = coded
    result = []
    for raw in rows:
        own, own_scales = read_row(name, raw)
        acc = 0.0
        for b, scale in enumerate(own_scales):
            part = slice(32 * b, 32 * b + 32)
            dot = sum(v * w for v, w in zip(own[part], codes[part], strict=True))
            acc = f32(acc + f32(float(dot) * f32(scale * scales[b])))
        result.append(acc)
    return result


def activate(kind, g, u, alpha=1.702, limit=7.0):
    if kind == "SWIGLU":
        return f32(f32(g * sigmoid(g)) * u)
    g = min(g, limit)
    u = max(min(u, limit), -limit)
    return f32(f32(u + 1.0) * f32(g * sigmoid(f32(f32(alpha) * g))))


def expert_row(weights, kind, x, profile):
    """Run one row through an expert; `weights` is {part: (format, raw rows)}."""
    coded = quantize_row(x, 127)
    g = product_row(*weights["gate"], x, coded)
    u = product_row(*weights["up"], x, coded)
    h = [activate(kind, a, b) for a, b in zip(g, u, strict=True)]
    y = product_row(*weights["down"], h, quantize_row(h, 127))
    return encode_row(y, profile)
