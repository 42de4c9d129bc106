"""Specification 02 once more, in plain Python floats: the oracle of the arithmetic.

Each operation is done in binary64 and rounded to binary32 at once. For +, -, *, / and
sqrt of binary32 values that gives the correctly rounded binary32 result (Figueroa,
"When is double rounding innocuous?", 1995). Nothing here uses numpy; rows are lists.
How the formats lie in a file is in tests/support/format_oracle.py.
"""

import struct
from functools import cache

from tests.support.format_oracle import (
    BLOCK_BYTES,
    FLOAT_BYTES,
    f32,
    read_floats,
    read_groups,
)

__all__ = [
    "activate",
    "decode_row",
    "encode_row",
    "exp",
    "expert_values",
    "f32",
    "lane_dot",
    "lane_sum",
    "product_row",
    "quantize_row",
    "read_row",
    "sigmoid",
    "soft_cap",
    "weights_of",
]

INTEGER = BLOCK_BYTES  # format -> (values in a block, bytes of it)
FLOAT = FLOAT_BYTES
Q_OF = {"R16": (32767, "h"), "R8": (127, "b")}


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


def soft_cap(value, cap):
    twice = f32(2.0 * f32(value / cap))
    return f32(cap * f32(f32(2.0 * sigmoid(twice)) - 1.0))


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


@cache
def read_row(name, raw):
    """Return the groups of an integer row, or the values of a float row."""
    return read_floats(name, raw) if name in FLOAT else read_groups(name, raw)


def weights_of(name, raw):
    """Return the weights of a row as numbers."""
    if name in FLOAT:
        return read_floats(name, raw)
    return [
        f32(code * scale) if minimum is None else f32(f32(code * scale) - minimum)
        for codes, scale, minimum in read_groups(name, raw)
        for code in codes
    ]


def lane_sum(values):
    lanes = [0.0] * 8
    for k, value in enumerate(values):
        lanes[k % 8] = f32(lanes[k % 8] + value)
    pairs = [f32(lanes[i] + lanes[i + 1]) for i in (0, 2, 4, 6)]
    return f32(f32(pairs[0] + pairs[1]) + f32(pairs[2] + pairs[3]))


def lane_dot(a, b):
    return lane_sum([f32(v * w) for v, w in zip(a, b, strict=True)])


def product_row(name, rows, x, coded, bias=None):
    """Multiply a matrix (a list of raw rows) with one input row."""
    if name in FLOAT:
        result = [lane_dot(read_row(name, raw), x) for raw in rows]
    else:
        result = [group_dot(read_row(name, raw), *coded) for raw in rows]
    if bias is None:
        return result
    return [f32(value + each) for value, each in zip(result, bias, strict=True)]


def group_dot(groups, x_codes, x_scales):
    acc, at = 0.0, 0
    for codes, scale, minimum in groups:
        own = x_codes[at : at + len(codes)]
        x_scale = x_scales[at // 32]
        dot = sum(v * w for v, w in zip(codes, own, strict=True))
        acc = f32(acc + f32(float(dot) * f32(scale * x_scale)))
        if minimum is not None:
            acc = f32(acc - f32(float(sum(own)) * f32(minimum * x_scale)))
        at += len(codes)
    return acc


def activate(kind, g, u, alpha=1.702, limit=7.0):
    if kind == "SWIGLU":
        return f32(f32(g * sigmoid(g)) * u)
    limit = f32(limit)
    g = min(g, limit)
    u = max(min(u, limit), -limit)
    return f32(f32(u + 1.0) * f32(g * sigmoid(f32(f32(alpha) * g))))


def expert_values(weights, kind, x, biases=None, *, alpha=1.702, limit=7.0):
    """Run one row through an expert, uncoded.

    `weights` is {part: (format, raw rows)}, `biases` {part: values} where there are.
    """
    biases = biases or {}
    coded = quantize_row(x, 127)
    g = product_row(*weights["gate"], x, coded, biases.get("gate"))
    u = product_row(*weights["up"], x, coded, biases.get("up"))
    h = [activate(kind, a, b, alpha, limit) for a, b in zip(g, u, strict=True)]
    return product_row(*weights["down"], h, quantize_row(h, 127), biases.get("down"))
