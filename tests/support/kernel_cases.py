"""Random work for kernels, as hypothesis strategies: the same for every kernel.

Hypothesis draws the shapes, the formats and a seed; numpy fills in the bytes, so that a
case of thousands of weights is cheap to draw and shrinks to small shapes. Weights are
any bytes at all but for their scales, which are finite: anything up to the greatest in
products, modest in experts, so that most results are numbers.
"""

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from mobile_worker.arithmetic.activation_kind import Activation, ActivationKind
from mobile_worker.arithmetic.coding import CodedRows, ExpertInput, quantize_rows
from mobile_worker.arithmetic.formats.block_format import Format, block_size, row_bytes
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from mobile_worker.arithmetic.self_test import FORMATS
from tests.support.format_oracle import HALF_FIELDS

__all__ = [
    "ExpertCase",
    "ProductCase",
    "code_row_cases",
    "expert_cases",
    "product_cases",
]

N_ROWS = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 40)
N_INPUTS = (0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17)
WIDTHS = (32, 64, 96, 160, 256)
SEEDS = st.integers(0, 2**32 - 1)


@dataclass(frozen=True)
class ProductCase:
    """A matrix and rows to multiply with it."""

    matrix: Matrix
    rows: ExpertInput


@dataclass(frozen=True)
class ExpertCase:
    """An expert, rows for it, and which of them a second call takes."""

    weights: ExpertWeights
    rows: ExpertInput
    some: np.ndarray


def random_matrix(
    rng: np.random.Generator, block_format: Format, n_rows: int, n_cols: int, top: int
) -> Matrix:
    """Return random weights whose f16 scales have exponents from `top` - 3 to `top`."""
    n_bytes = n_rows * row_bytes(block_format, n_cols)
    raw = np.frombuffer(rng.bytes(n_bytes), np.uint8).copy()
    _, size = block_size(block_format)
    blocks = raw.reshape(-1, size)
    lowest = max(0, top - 3)
    if block_format is Format.F32:
        values = rng.standard_normal(n_bytes // 4) * 2.0 ** (top - 15)
        raw = values.astype("<f4").view(np.uint8)
    elif block_format is Format.BF16:
        bits = rng.standard_normal(n_bytes // 2).astype("<f4").view("<u4") >> 16
        raw = bits.astype("<u2").view(np.uint8)
    elif block_format is Format.MXFP4:
        blocks[:, 0] = rng.integers(lowest + 112, top + 113, len(blocks))
    elif block_format is Format.NVFP4:
        blocks[:, :4] = rng.integers(0, 256 if top > 20 else 64, (len(blocks), 4))
    places = (0,) if block_format is Format.F16 else HALF_FIELDS.get(block_format.name)
    for at in places or ():
        exponents = rng.integers(lowest, top + 1, len(blocks)).astype("<u2")
        bits = rng.integers(0, 1 << 16, len(blocks)).astype("<u2") & 0x83FF
        blocks[:, at : at + 2] = (bits | exponents << 10).view(np.uint8).reshape(-1, 2)
    return Matrix(
        format=block_format,
        n_rows=n_rows,
        n_cols=n_cols,
        raw=memoryview(raw.tobytes()),
    )


@st.composite
def product_cases(draw: st.DrawFn) -> ProductCase:
    """Draw a product; scales from subnormal to the greatest, any codes."""
    block_format = draw(st.sampled_from(FORMATS))
    n_rows, n = draw(st.sampled_from(N_ROWS)), draw(st.sampled_from(N_INPUTS))
    n_cols = max(32, block_size(block_format)[0]) * draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(SEEDS))
    matrix = random_matrix(
        rng, block_format, n_rows, n_cols, draw(st.sampled_from((0, 8, 15, 30)))
    )
    codes = rng.integers(-127, 128, (n, n_cols)).astype(np.int8)
    exponents = rng.integers(
        *draw(st.sampled_from(((-8, 1), (-149, 40)))), (n, n_cols // 32)
    )
    scales = ((1 + rng.random(exponents.shape)) * 2.0**exponents).astype(np.float32)
    scales[rng.random(exponents.shape) < 0.1] = 0.0
    floats = (rng.standard_normal((n, n_cols)) * 8).astype(np.float32)
    coded = CodedRows(codes=codes, scales=scales)
    return ProductCase(matrix, ExpertInput(coded=coded, floats=floats))


@st.composite
def expert_cases(draw: st.DrawFn) -> ExpertCase:
    """Draw an expert of three formats, with or without each bias."""
    n_embd, n_ff = draw(st.sampled_from(WIDTHS)), draw(st.sampled_from(WIDTHS))
    rng = np.random.default_rng(draw(SEEDS))
    shapes = {"gate": (n_ff, n_embd), "up": (n_ff, n_embd), "down": (n_embd, n_ff)}
    parts, biases = {}, {}
    for part, (n_rows, n_cols) in shapes.items():
        fitting = [f for f in FORMATS if n_cols % block_size(f)[0] == 0]
        block_format = draw(st.sampled_from(fitting))
        least = 4 if block_size(block_format)[0] == 256 else 8
        parts[part] = random_matrix(rng, block_format, n_rows, n_cols, least)
        if draw(st.booleans()):
            biases[f"{part}_bias"] = rng.standard_normal(n_rows).astype(np.float32)
    activation = Activation(
        kind=draw(st.sampled_from(ActivationKind)),
        alpha=draw(st.sampled_from((1.702, 1.0))),
        limit=draw(st.sampled_from((7.0, 0.5))),
    )
    n = draw(st.sampled_from(N_INPUTS))
    size = draw(st.sampled_from((1.0, 2.0**-20, 2.0**10, 2.0**60)))
    x = (rng.standard_normal((n, n_embd)) * size).astype(np.float32)
    some = rng.integers(0, max(1, n), 3 if n else 0)
    weights = ExpertWeights(**parts, **biases, activation=activation)
    return ExpertCase(weights, ExpertInput(coded=quantize_rows(x), floats=x), some)


@st.composite
def code_row_cases(draw: st.DrawFn) -> np.ndarray:
    """Draw rows to be coded: of any size, with ties, zeros, now and then no number."""
    n, n_cols = draw(st.sampled_from(N_INPUTS)), 32 * draw(st.integers(1, 5))
    rng = np.random.default_rng(draw(SEEDS))
    kind = draw(st.sampled_from(("normal", "bits", "ties", "mixed")))
    if kind == "bits":
        raw = rng.integers(0, 1 << 32, (n, n_cols)).astype("<u4")
        raw[(raw & 0x7F80_0000) == 0x7F80_0000] &= 0xBFFF_FFFF
        x = raw.view("<f4").astype(np.float32)
    elif kind == "ties":
        x = rng.integers(-254, 255, (n, n_cols)).astype(np.float32) / 2
        x[:, ::32] = 127.0
    else:
        x = rng.standard_normal((n, n_cols)).astype(np.float32)
    if kind == "mixed":
        x *= (
            (2.0 ** rng.integers(-130, 120, (n, n_cols // 32)))
            .astype("f4")
            .repeat(32, 1)
        )
        x[rng.random(x.shape) < 0.3] = 0.0
    if n and draw(st.integers(0, 9)) == 0:
        x[rng.integers(n), rng.integers(n_cols)] = draw(
            st.sampled_from((np.nan, np.inf, -np.inf))
        )
    return x
