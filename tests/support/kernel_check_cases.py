"""Random work for the C driver: any shape, any bytes, scales of every kind of size.

From a seed, by numpy alone, since there are tens of thousands. Scales are modest, zero,
subnormal, of the greatest size, or any bits at all, among which are numbers that are
none; now and then a code is one that no coding gives.
"""

import numpy as np

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput
from mobile_worker.arithmetic.formats.block_format import Format, block_size, row_bytes
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.self_test import FORMATS
from tests.support.format_oracle import HALF_FIELDS
from tests.support.kernel_checks import (
    Check,
    Layout,
    activation_check,
    coding_check,
    expert_check,
    product_check,
    rounding_check,
)
from tests.support.kernel_driver import Mode

__all__ = ["random_checks"]

_KINDS = ("modest", "zero", "subnormal", "largest", "any")
_MACS = 40_000  # of one case, but for a few
_WIDTHS = (32, 64, 96, 160, 256, 288, 512)


def random_checks(seed: int, n_each: int) -> list[Check]:
    """Return 6 n_each products, 3 n_each experts, n_each codings and activations."""
    rng = np.random.default_rng(seed)
    checks = [random_product(rng, FORMATS[i % len(FORMATS)]) for i in range(6 * n_each)]
    checks += [random_expert(rng) for _ in range(3 * n_each)]
    checks += [random_row(rng) for _ in range(n_each)]
    return checks


def pick(rng: np.random.Generator, *choices):
    """Return one of them."""
    return choices[int(rng.integers(len(choices)))]


def random_layout(rng: np.random.Generator) -> Layout:
    mode = Mode(int(rng.integers(5))) if rng.random() < 0.5 else Mode.PLAIN
    around = pick(rng, (0, 0), (3, 0), (0, 5), (1, 2))
    return Layout(mode, bool(rng.integers(2)), *around)


def halves(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    """Return the bits of n f16 numbers."""
    bits = rng.integers(0, 1 << 16, n).astype("<u2")
    if kind == "any":
        return bits
    low, high = {"modest": (7, 11), "largest": (28, 31)}.get(kind, (0, 1))
    keep = 0x8000 if kind == "zero" else 0x83FF
    return bits & keep | rng.integers(low, high, n).astype("<u2") << 10


def wide_bits(rng: np.random.Generator, kind: str, n: int) -> np.ndarray:
    """Return n f32 numbers."""
    bits = rng.integers(0, 1 << 32, n).astype("<u4")
    if kind == "any":
        return bits.view("<f4")
    low, high = {"modest": (120, 128), "largest": (252, 255)}.get(kind, (0, 1))
    keep = 0x8000_0000 if kind == "zero" else 0x807F_FFFF
    return (bits & keep | rng.integers(low, high, n).astype("<u4") << 23).view("<f4")


def random_matrix(
    rng: np.random.Generator, own: Format, shape: tuple[int, int], kind: str
) -> Matrix:
    n_bytes = shape[0] * row_bytes(own, shape[1])
    raw = np.frombuffer(rng.bytes(n_bytes), np.uint8).copy()
    blocks = raw.reshape(-1, block_size(own)[1])
    if own is Format.F32:
        blocks[:] = wide_bits(rng, kind, len(blocks)).view(np.uint8).reshape(-1, 4)
    elif own is Format.BF16:
        upper = wide_bits(rng, kind, len(blocks)).view("<u4") >> 16
        blocks[:] = upper.astype("<u2").view(np.uint8).reshape(-1, 2)
    elif own in {Format.MXFP4, Format.NVFP4}:
        n = 1 if own is Format.MXFP4 else 4
        ranges = {"modest": (118, 124) if n == 1 else (24, 48), "largest": (250, 255)}
        ranges |= {"zero": (0, 1), "subnormal": (0, 4), "any": (0, 256)}
        blocks[:, :n] = rng.integers(*ranges[kind], (len(blocks), n))
    for at in (0,) if own is Format.F16 else HALF_FIELDS.get(own.name, ()):
        fields = halves(rng, kind, len(blocks)).view(np.uint8).reshape(-1, 2)
        blocks[:, at : at + 2] = fields
    return Matrix(
        format=own, n_rows=shape[0], n_cols=shape[1], raw=memoryview(raw.tobytes())
    )


def random_input(rng: np.random.Generator, n: int, n_cols: int, kind: str):
    """Return rows, coded and as floats; these need not stand for each other."""
    codes = rng.integers(-127, 128, (n, n_cols)).astype(np.int8)
    scales = np.abs(wide_bits(rng, kind, n * n_cols // 32)).astype(np.float32)
    if kind == "any" and rng.random() < 0.9:  # numbers that a coding gives
        scales[~np.isfinite(scales)] = 0.0
    if kind == "zero" and scales.size:
        scales[0] = -0.0
    if n and rng.random() < 0.01:
        codes[rng.integers(n), rng.integers(n_cols)] = -128
    floats = wide_bits(rng, kind, n * n_cols).astype(np.float32)
    return ExpertInput(
        coded=CodedRows(codes=codes, scales=scales.reshape(n, n_cols // 32)),
        floats=floats.reshape(n, n_cols),
    )


def random_kind(rng: np.random.Generator) -> str:
    return pick(rng, *_KINDS, "modest", "modest", "modest")


def few_rows(rng: np.random.Generator, macs: int) -> int:
    """Return how many rows of input a matrix of `macs` weights meets."""
    n = int(rng.integers(0, 10)) if rng.random() < 0.7 else int(rng.integers(1, 71))
    return n if rng.random() < 0.02 else min(n, max(1, _MACS // macs))


def random_bias(rng: np.random.Generator, n_rows: int) -> np.ndarray | None:
    if rng.random() < 0.5:
        return None
    return rng.standard_normal(n_rows).astype(np.float32)


def random_product(rng: np.random.Generator, own: Format) -> Check:
    block = max(32, block_size(own)[0])
    n_rows = int(rng.integers(1, 41))
    n_cols = block * int(rng.integers(1, 544 // block + 1))
    if rng.random() < 0.5:
        n_rows, n_cols = pick(rng, 1, 3, 8, 15, 17), block * pick(rng, 1, 2)
    n = few_rows(rng, n_rows * n_cols)
    matrix = random_matrix(rng, own, (n_rows, n_cols), random_kind(rng))
    rows = random_input(rng, n, n_cols, random_kind(rng))
    if own in {Format.F32, Format.F16, Format.BF16}:
        rows = ExpertInput(floats=rows.floats)
    elif rng.random() < 0.9:
        rows = ExpertInput(coded=rows.coded)
    return product_check(matrix, rows, random_bias(rng, n_rows), random_layout(rng))


def random_activation(rng: np.random.Generator) -> Activation:
    return Activation(
        kind=pick(rng, *ActivationKind),
        alpha=pick(rng, 1.702, 1.0, 0.0),
        limit=pick(rng, 7.0, 0.5, 1e30),
    )


def random_expert(rng: np.random.Generator) -> Check:
    n_embd, n_ff = pick(rng, *_WIDTHS), pick(rng, *_WIDTHS)
    if n_embd * n_ff > 20_000:
        n_embd, n_ff = pick(rng, (32, 256), (256, 32), (64, 96))
    kinds = ("modest",) * 3 if rng.random() < 0.7 else [random_kind(rng) for _ in "123"]
    shapes = {"gate": (n_ff, n_embd), "up": (n_ff, n_embd), "down": (n_embd, n_ff)}
    parts, biases = {}, {}
    for (part, shape), kind in zip(shapes.items(), kinds, strict=True):
        fitting = [own for own in FORMATS if shape[1] % block_size(own)[0] == 0]
        parts[part] = random_matrix(rng, pick(rng, *fitting), shape, kind)
        biases[f"{part}_bias"] = random_bias(rng, shape[0])
    n = few_rows(rng, 3 * n_embd * n_ff)
    kind = "modest" if rng.random() < 0.8 else random_kind(rng)
    n_chosen = int(rng.integers(0, 6)) if rng.random() < 0.97 else 67
    chosen = rng.integers(0, max(n, 1), n_chosen if n else 0)
    weights = ExpertWeights(**parts, **biases, activation=random_activation(rng))
    return expert_check(
        weights,
        random_input(rng, n, n_embd, kind),
        None if rng.random() < 0.5 else chosen,
        int(rng.integers(6)),
        random_layout(rng),
    )


def random_row(rng: np.random.Generator) -> Check:
    """Return a coding, a rounding or an activation of up to 10 blocks."""
    n, q = 32 * int(rng.integers(0, 11)), pick(rng, 127, 32767)
    kind, layout = random_kind(rng), random_layout(rng)
    x = wide_bits(rng, kind, n).astype(np.float32)
    if pick(rng, True, False):
        return coding_check(x, q, layout)
    x[~np.isfinite(x)] = 1.0
    if pick(rng, True, False):
        return rounding_check(x, q, layout)
    u = rng.permutation(x)
    cut = n - int(rng.integers(0, 7)) if n else 0
    return activation_check(random_activation(rng), x[:cut], u[:cut], layout)
