"""Write tests/vectors/arithmetic: golden bytes that every implementation must give.

    python -m tests.vectors.make_arithmetic

Results come from the plain-Python oracle (tests/support/arithmetic_oracle.py), never
from an implementation under test. Inputs come from SHA-256 in counter mode. Numbers
are little-endian bytes in hex. Files and fields: tests/vectors/arithmetic/README.md.
"""

import hashlib
import itertools
import json
import math
import struct
from pathlib import Path

from tests.support import arithmetic_oracle as oracle

__all__ = ["FILES", "FOLDER", "make"]

FOLDER = Path(__file__).parent / "arithmetic"
FORMATS = ("F32", "F16", "Q4_0", "Q8_0")
SHAPES = ((1, 32), (2, 64), (3, 96), (7, 160))
PROFILES = ("R32", "R16", "R8")
KINDS = ("SWIGLU", "SWIGLU_OAI")
F16_EXTREMES = (0x0001, 0x03FF, 0x0400, 0x7BFF, 0x8001, 0xFBFF, 0x0000, 0x8000)


def stream(label, n):
    blocks = -(-n // 32)
    return b"".join(
        hashlib.sha256(f"{label} {i}".encode()).digest() for i in range(blocks)
    )[:n]


def floats(label, n, scale=2.0**-12):
    return [
        oracle.f32(v * scale) for v in struct.unpack(f"<{n}h", stream(label, 2 * n))
    ]


def pack(values):
    return struct.pack(f"<{len(values)}f", *values).hex()


def split(values, n):
    return [values[i : i + n] for i in range(0, len(values), n)]


def matrix(name, label, n_rows, n_cols, *, extremes=False):
    """Return the raw rows of a matrix, by its format."""
    if name == "F32":
        values = floats(label, n_rows * n_cols)
        if extremes:
            values[:4] = [2.0**-149, -(2.0**-140), 2.0**-126, 3.0e30]
        return split(struct.pack(f"<{len(values)}f", *values), 4 * n_cols)
    if name == "F16":
        bits = list(
            struct.unpack(f"<{n_rows * n_cols}H", stream(label, 2 * n_rows * n_cols))
        )
        bits = [b & 0xB9FF for b in bits]
        if extremes:
            bits[: len(F16_EXTREMES)] = F16_EXTREMES
        return split(struct.pack(f"<{len(bits)}H", *bits), 2 * n_cols)
    size = oracle.INTEGER[name]
    n_blocks = n_rows * n_cols // 32
    blocks = split(bytearray(stream(label, size * n_blocks)), size)
    for i, block in enumerate(blocks):
        scale = 0x2000 | (struct.unpack("<H", block[:2])[0] & 0x87FF)
        if extremes:
            scale = F16_EXTREMES[i % len(F16_EXTREMES)]
        block[:2] = struct.pack("<H", scale)
        if extremes and name == "Q8_0":
            block[2] = 0x80  # a weight code of -128 is legal
    return split(b"".join(bytes(block) for block in blocks), size * n_cols // 32)


def elementary():
    special = [0.0, -0.0, 2.0**-149, -(2.0**-126), 1.0, -1.0, 87.0, -87.0, 88.0]
    special += [-87.5, 88.5, 1e30, -1e30, 16.0, -16.0, 1e-8, -17.0]
    halves = [oracle.f32((n + 0.5) * math.log(2)) for n in range(-20, 20)]
    z = [oracle.f32(v) for v in special] + halves + floats("exp", 400, 2.0**-8)
    return {
        "z": pack(z),
        "exp": pack([oracle.exp(v) for v in z]),
        "sigmoid": pack([oracle.sigmoid(v) for v in z]),
        "silu": pack([oracle.f32(v * oracle.sigmoid(v)) for v in z]),
    }


def activations():
    g = [
        *floats("gate", 320, 2.0 ** (-11)),
        7.0,
        -7.0,
        0.0,
        100.0,
        -100.0,
        2.0 ** (-140),
    ]
    u = [
        *floats("up", 320, 2.0 ** (-11)),
        -7.0,
        7.5,
        -0.0,
        -100.0,
        100.0,
        2.0 ** (-149),
    ]
    return {
        "g": pack(g),
        "u": pack(u),
        **{
            kind: pack([oracle.activate(kind, a, b) for a, b in zip(g, u, strict=True)])
            for kind in KINDS
        },
    }


def coding_rows():
    ties = [float(k) + 0.5 for k in range(31)] + [127.0]
    wide_ties = [1000.5 + k for k in range(31)] + [32767.0]
    return {
        "modest": floats("modest", 96),
        "zeros": [0.0, -0.0] * 16,
        "subnormal": [oracle.f32(k * 2.0**-149) for k in range(-16, 16)],
        "below 2^-100": [oracle.f32(2.0**-100 * (1 - 2.0**-24))] + [0.0] * 31,
        "at 2^-100": [-(2.0 ** (-100)), *floats("tiny", 31, 2.0 ** (-116))],
        "huge": [3.0e38, -3.4e38, *floats("huge", 30, 2.0**112)],
        "ties": ties,
        "negative ties": [-v for v in ties],
        "wide ties": wide_ties,
        "one hot": [0.0] * 63 + [-1.0],
        "mixed blocks": floats("a", 32, 2.0**-30) + floats("b", 32, 2.0**20),
    }


def coding():
    cases = []
    for name, values in coding_rows().items():
        row = [oracle.f32(v) for v in values]
        case = {"name": name, "x": pack(row)}
        for profile in ("R16", "R8"):
            coded = oracle.encode_row(row, profile)
            case[profile] = coded.hex()
            case[f"{profile} decoded"] = pack(
                oracle.decode_row(coded, profile, len(row))
            )
        cases.append(case)
    return cases


def products():
    cases = []
    for name, (n_rows, n_cols), extremes in itertools.product(
        FORMATS, SHAPES, (False, True)
    ):
        label = f"product {name} {n_rows} {n_cols} {extremes}"
        raw = matrix(name, label, n_rows, n_cols, extremes=extremes)
        rows = split(floats(f"{label} x", 2 * n_cols), n_cols)
        result = [
            v
            for x in rows
            for v in oracle.product_row(name, raw, x, oracle.quantize_row(x, 127))
        ]
        cases.append(
            {
                "format": name,
                "n_rows": n_rows,
                "n_cols": n_cols,
                "raw": b"".join(raw).hex(),
                "x": pack([v for x in rows for v in x]),
                "result": pack(result),
            }
        )
    return cases


def experts():
    cases = []
    mixes = [(name, name, name) for name in FORMATS] + [("Q4_0", "F16", "Q8_0")]
    for formats, kind in itertools.product(mixes, KINDS):
        n_ff = 96 if formats[2] in oracle.INTEGER and kind == "SWIGLU" else 32
        label = f"expert {formats} {kind} {n_ff}"
        shapes = {"gate": (n_ff, 64), "up": (n_ff, 64), "down": (64, n_ff)}
        weights = {
            part: (name, matrix(name, f"{label} {part}", *shapes[part]))
            for part, name in zip(shapes, formats, strict=True)
        }
        rows = split(floats(f"{label} x", 2 * 64), 64)
        case = {"formats": formats, "activation": kind, "n_embd": 64, "n_ff": n_ff}
        for part, (_, raw) in weights.items():
            case[part] = b"".join(raw).hex()
        case["x"] = pack([v for x in rows for v in x])
        for profile in PROFILES:
            coded = [oracle.expert_row(weights, kind, x, profile) for x in rows]
            case[profile] = b"".join(coded).hex()
        cases.append(case)
    return cases


FILES = {
    "elementary.json": elementary,
    "activations.json": activations,
    "coding.json": coding,
    "products.json": products,
    "experts.json": experts,
}


def make(folder=FOLDER):
    """Write all files; the same bytes each time."""
    for name, build in FILES.items():
        text = json.dumps(build(), indent=1)
        (folder / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    make()
