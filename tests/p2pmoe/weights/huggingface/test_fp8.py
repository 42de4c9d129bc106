"""FP8 with scales: golden bytes from torch, and a second decoder written here."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from p2pmoe.weights.byte_source import OpenFile
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.huggingface.fp8 import (
    Fp8Rows,
    ScaleGrid,
    bfloat_bits,
    fp8_values,
)
from p2pmoe.weights.huggingface.rows import Items, Stored
from p2pmoe.weights.huggingface.safetensors import Dtype

# SHA-256 of all codes that are numbers as F32, decoded by torch 2.14.
GOLDEN_VALUES = {
    Dtype.F8_E4M3: "f275e267d1b70f2c583fa6b5c47be61348a1aa22f7aa676cc5a0fb66798646a5",
    Dtype.F8_E5M2: "1274ea3430227c40c4efdc688baa246ffd3935dbd9546c0df7fffdec8724f01e",
}
# of (codes [200, 300] as below * scales [2, 3] over 128 x 128).bfloat16(), by torch
GOLDEN_BLOCKS = "c1f5a6dd0ce04f6fdbfac89a18b5debc0a9cdeed6f217e3609b90f5b653f1b59"


def numbers(dtype: Dtype) -> Items:
    """Return the codes that are numbers."""
    codes = np.arange(256, dtype=np.uint8)
    if dtype is Dtype.F8_E4M3:
        return codes[(codes & 127) != 127]
    return codes[(codes & 127) < 0x7C]


def decoded(code: int, dtype: Dtype) -> float:
    """Decode one code bit by bit, in exact arithmetic."""
    n_mantissa, bias = (3, 7) if dtype is Dtype.F8_E4M3 else (2, 15)
    exponent = (code & 127) >> n_mantissa
    mantissa = (code & ((1 << n_mantissa) - 1)) / (1 << n_mantissa)
    size = (mantissa + (exponent > 0)) * 2.0 ** (max(exponent, 1) - bias)
    return -size if code & 128 else size


def nearest_bfloat(values: Items) -> Items:
    """Round F32 values to BF16 by looking at the two neighbours of each."""
    bits = values.view(np.uint32)
    low, rest = bits >> 16, bits & 0xFFFF
    goes_up = (rest > 0x8000) | ((rest == 0x8000) & (low % 2 == 1))
    return (low + goes_up).astype(np.uint16)


@pytest.mark.parametrize("dtype", GOLDEN_VALUES)
def test_codes_are_decoded_as_torch_does(dtype: Dtype) -> None:
    values = fp8_values(dtype)[numbers(dtype)]
    assert hashlib.sha256(values.tobytes()).hexdigest() == GOLDEN_VALUES[dtype]
    assert values.tolist() == [decoded(int(code), dtype) for code in numbers(dtype)]
    assert np.isnan(fp8_values(dtype)).sum() == 256 - len(numbers(dtype))


def test_rounding_to_bfloat_is_to_nearest_even() -> None:
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 0x7F000000, 5000).astype(np.uint32)
    bits[:1000] &= 0xFFFF8000  # ties
    values = bits.view(np.float32)
    assert (bfloat_bits(values) == nearest_bfloat(values)).all()
    assert bfloat_bits(np.array([np.nan], np.float32))[0] == 0x7FC0
    assert bfloat_bits(np.array([np.inf], np.float32))[0] == 0x7F80


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Fp8Rows]:
    def build(
        codes: Items, scales: Items, dtype: Dtype, block: tuple[int, int], n: int = 0
    ) -> Fp8Rows:
        path = tmp_path / "data"
        path.write_bytes(codes.tobytes() + scales.tobytes())
        file = OpenFile(path)
        grid = Stored(file, codes.nbytes, *scales.shape, scales.dtype)
        rows = Stored(file, 0, *codes.shape, np.dtype(np.uint8))
        return Fp8Rows(
            path,
            "w",
            rows,
            Dtype.F8_E4M3,
            ScaleGrid(grid, dtype, *block, n or len(codes)),
        )

    return build


def whole(rows: Fp8Rows) -> Items:
    out = np.empty((rows.n_rows, rows.n_items), np.uint16)
    rows.fill(0, out)
    return out


def expected(codes: Items, scales: Items, block: tuple[int, int]) -> Items:
    spread = np.repeat(np.repeat(scales, block[0], 0), block[1], 1)
    spread = spread[: codes.shape[0], : codes.shape[1]]
    values = np.array([decoded(code, Dtype.F8_E4M3) for code in range(256)], np.float32)
    return nearest_bfloat(values[codes] * spread.astype(np.float32))


def blocks_case() -> tuple[Items, Items]:
    codes = (np.arange(60_000) * 7919 % 251).astype(np.uint8).reshape(200, 300)
    codes[(codes & 127) == 127] = 5
    scales = (np.arange(1, 7, dtype=np.float32) * np.float32(0.00123)).reshape(2, 3)
    return codes, scales


def test_blocks_at_the_edges_are_cut_off_as_torch_does(
    make: Callable[..., Fp8Rows],
) -> None:
    codes, scales = blocks_case()
    out = whole(make(codes, scales, Dtype.F32, (128, 128)))
    assert hashlib.sha256(out.tobytes()).hexdigest() == GOLDEN_BLOCKS
    assert (out == expected(codes, scales, (128, 128))).all()


@pytest.mark.parametrize("block", [(1, 32), (1, 300), (200, 300), (3, 70), (64, 300)])
@pytest.mark.parametrize("first", [0, 1, 127, 199])
def test_any_block_and_any_run_of_rows(
    block: tuple[int, int], first: int, make: Callable[..., Fp8Rows]
) -> None:
    codes, _ = blocks_case()
    shape = (-(-200 // block[0]), -(-300 // block[1]))
    scales = np.random.default_rng(1).uniform(0.01, 2, shape).astype(np.float32)
    rows = make(codes, scales, Dtype.F32, block)
    for n_rows in {1, min(9, 200 - first), 200 - first}:
        out = np.empty((n_rows, 300), np.uint16)
        rows.fill(first, out)
        run = slice(first, first + n_rows)
        assert (out == expected(codes, scales, block)[run]).all()


def test_each_matrix_of_a_stack_has_its_own_grid(make: Callable[..., Fp8Rows]) -> None:
    codes, _ = blocks_case()
    scales = np.arange(1, 13, dtype=np.float32).reshape(4, 3)  # 2 matrices of 100 rows
    out = whole(make(codes, scales, Dtype.F32, (64, 128), 100))
    for number in (0, 1):
        part = slice(number * 100, number * 100 + 100)
        grid = scales[number * 2 : number * 2 + 2]
        assert (out[part] == expected(codes[part], grid, (64, 128))).all()


@pytest.mark.parametrize("dtype", [Dtype.BF16, Dtype.F16, Dtype.F8_E8M0])
def test_scales_of_other_dtypes(dtype: Dtype, make: Callable[..., Fp8Rows]) -> None:
    codes, _ = blocks_case()
    powers = np.array([[1.0, 0.5, 4.0], [0.25, 2.0, 1.0]], np.float32)
    stored = {
        Dtype.BF16: (powers.view(np.uint32) >> 16).astype(np.uint16),
        Dtype.F16: powers.astype(np.float16).view(np.uint16),
        Dtype.F8_E8M0: (np.log2(powers) + 127).astype(np.uint8),
    }[dtype]
    out = whole(make(codes, stored, dtype, (128, 128)))
    assert (out == expected(codes, powers, (128, 128))).all()


@pytest.mark.parametrize(
    ("code", "scale"),
    [(0x7F, 1.0), (0xFF, 1.0), (8, np.nan), (0x7E, 3e38), (8, np.inf)],
)
@pytest.mark.parametrize("block", [(128, 128), (1, 32)])
def test_what_is_not_finite_is_refused_when_read(
    code: int, scale: float, block: tuple[int, int], make: Callable[..., Fp8Rows]
) -> None:
    codes, _ = blocks_case()
    codes[150, 299] = code
    scales = np.ones((-(-200 // block[0]), -(-300 // block[1])), np.float32)
    scales[150 // block[0], 299 // block[1]] = scale
    rows = make(codes, scales, Dtype.F32, block)
    rows.fill(0, np.empty((128, 300), np.uint16))
    with pytest.raises(ModelFileError, match=r"tensor 'w': a value in rows .* finite"):
        rows.fill(120, np.empty((80, 300), np.uint16))
