"""Write tests/vectors/arithmetic: golden bytes that every implementation must give.

    python -m tests.vectors.make_arithmetic

Results come from the plain-Python oracle (tests/support/arithmetic_oracle.py), never
from an implementation under test; inputs from tests/vectors/arithmetic_inputs.py.
Numbers are little-endian bytes in hex. Files and fields:
tests/vectors/arithmetic/README.md.
"""

import itertools
import json
import math
import struct
from pathlib import Path

from tests.support import arithmetic_oracle as oracle
from tests.support.format_oracle import BLOCK_BYTES, FLOAT_BYTES, HALF_FIELDS
from tests.vectors.arithmetic_inputs import (
    KINDS,
    coded_rows,
    floats,
    matrix,
    pack,
    split,
)

__all__ = ["FILES", "FOLDER", "FORMATS", "make"]

FOLDER = Path(__file__).parent / "arithmetic"
FORMATS = (*FLOAT_BYTES, *BLOCK_BYTES)
PROFILES = ("R32", "R16", "R8")
ACTIVATIONS = ("SWIGLU", "SWIGLU_OAI")
# (n_rows, blocks in a row, rows of input); narrow formats have 32 columns a block here
MODEST_SHAPES = ((1, 2, 1), (3, 1, 2), (7, 1, 5), (17, 1, 1), (33, 1, 2))


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
            for kind in ACTIVATIONS
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


def columns(name, n_blocks):
    """Return the columns of a row of so many blocks, at least 32 a block."""
    return n_blocks * max(32, BLOCK_BYTES.get(name, (32, 0))[0])


def product(name, kind, shape, label=""):
    """Return the fields of a product without its result, and what it is made of."""
    n_rows, n_blocks, n = shape
    n_cols = columns(name, n_blocks)
    label = f"product {name} {kind} {shape}{label}"
    raw = matrix(name, kind, label, (n_rows, n_cols))
    rows = coded_rows(name, kind, f"{label} x", n, n_cols)
    case = {"format": name, "kind": kind, "n_rows": n_rows, "n_cols": n_cols, "n": n}
    case["raw"] = b"".join(raw).hex()
    return case, raw, rows


def put_rows(case, rows):
    """Write rows of input into a case: `x`, or `codes` and `scales`."""
    if rows[0][1] is None:
        case["x"] = pack([v for x, _ in rows for v in x])
        return
    codes = [code for _, (own, _) in rows for code in own]
    case["codes"] = struct.pack(f"{len(codes)}b", *codes).hex()
    case["scales"] = pack([s for _, (_, own) in rows for s in own])


def products():
    cases = []
    shapes = dict.fromkeys(KINDS, ((3, 2, 2),)) | {"modest": MODEST_SHAPES}
    for name, kind in itertools.product(FORMATS, KINDS):
        for shape in shapes[kind]:
            case, raw, rows = product(name, kind, shape)
            put_rows(case, rows)
            result = [v for x, c in rows for v in oracle.product_row(name, raw, x, c)]
            if not all(map(math.isfinite, result)):
                raise ValueError(f"{name} {kind} {shape} overflows")
            case["result"] = pack(result)
            cases.append(case)
    return cases


def expert(formats, activation, shape, biased):
    """Return one case of an expert; `activation` is (kind, alpha, limit)."""
    kind, alpha, limit = activation
    n_embd, n_ff, n = shape
    label = f"expert {formats} {activation} {shape} {biased}"
    shapes = {"gate": (n_ff, n_embd), "up": (n_ff, n_embd), "down": (n_embd, n_ff)}
    weights = {
        part: (name, matrix(name, "modest", f"{label} {part}", shapes[part]))
        for part, name in zip(shapes, formats, strict=True)
    }
    biases = {
        part: floats(f"{label} {part} bias", shapes[part][0], 2.0**-13)
        for part in shapes
        if biased
    }
    rows = split(floats(f"{label} x", n * n_embd), n_embd)
    case = {"formats": formats, "activation": kind, "alpha": alpha, "limit": limit}
    case |= {"n_embd": n_embd, "n_ff": n_ff, "n": n}
    for part, (_, raw) in weights.items():
        case[part] = b"".join(raw).hex()
    for part, bias in biases.items():
        case[f"{part}_bias"] = pack(bias)
    case["x"] = pack([v for x in rows for v in x])
    own = {"alpha": alpha, "limit": limit, "biases": biases}
    values = [oracle.expert_values(weights, kind, x, **own) for x in rows]
    for profile in PROFILES:
        coded = [oracle.encode_row(y, profile) for y in values]
        case[profile] = b"".join(coded).hex()
    return case


def experts():
    """Return experts of one format each, then of mixed ones."""
    plain, oai = ("SWIGLU", 1.702, 7.0), ("SWIGLU_OAI", 1.702, 7.0)
    cases = []
    for number, name in enumerate(FORMATS):
        activation, biased = plain if number % 2 else oai, number % 3 == 0
        block = BLOCK_BYTES.get(name, (32, 0))[0]
        if block == 256:
            formats = (name, name, "Q8_0")
            cases.append(expert(formats, activation, (256, 32, 2), biased))
            formats = ("Q4_0", "Q8_0", name)
            cases.append(expert(formats, activation, (32, 256, 1), not biased))
        else:
            cases.append(expert((name,) * 3, activation, (64, block, 2), biased))
    mixed = [
        (("Q4_0", "F16", "Q8_0"), oai, (32, 32, 5), True),
        (("Q2_K", "Q4_K", "Q4_0"), plain, (256, 32, 1), True),
        (("MXFP4", "NVFP4", "BF16"), ("SWIGLU_OAI", 1.0, 4.5), (64, 32, 2), True),
        (("BF16", "F32", "IQ4_NL"), plain, (32, 64, 2), False),
        (("Q5_0", "Q4_1", "Q5_1"), oai, (96, 32, 2), True),
    ]
    return [*cases, *itertools.starmap(expert, mixed)]


def refused():
    """Return products that have no result, with the error that says so."""
    cases = []
    for name in FORMATS:
        case, raw, rows = product(name, "modest", (3, 1, 2), " refused")
        if name == "NVFP4":  # every byte of its scales is a number
            continue
        last = bytearray(raw[1])
        for at in HALF_FIELDS.get(name, ()):
            struct.pack_into("<H", last, at, 0x7C00)
        if name in FLOAT_BYTES:
            last[-FLOAT_BYTES[name] :] = {
                "F32": b"\0\0\x80\x7f",
                "F16": b"\0\x7c",
                "BF16": b"\x80\x7f",
            }[name]
        if name == "MXFP4":
            last[0] = 255
        case["raw"] = b"".join([raw[0], last, raw[2]]).hex()
        put_rows(case, rows)
        cases.append({"error": "NonFinite", "bad_row": 1, **case})
    for code, scale in ((-128, 1.0), (1, -1.0), (1, math.inf), (1, math.nan)):
        case, _, rows = product("Q4_0", "modest", (3, 1, 2), " code")
        codes, scales = rows[1][1]
        codes[7], scales[0] = code, scale
        put_rows(case, rows)
        cases.append({"error": "CodeRefused", "bad_row": None, **case})
    return cases


FILES = {
    "elementary.json": elementary,
    "activations.json": activations,
    "coding.json": coding,
    "products.json": products,
    "experts.json": experts,
    "refused.json": refused,
}


def make(folder=FOLDER):
    """Write all files; the same bytes each time."""
    for name, build in FILES.items():
        text = json.dumps(build(), indent=1)
        (folder / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    make()
