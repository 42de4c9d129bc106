"""Numbers become blocks and come back as near as the format allows."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import Format, row_bytes
from mobile_worker.arithmetic.formats.codecs import dequantize
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.self_test import fixed_matrix
from p2pmoe.convert.errors import ConversionFailed, FormatNotWritable
from p2pmoe.convert.quantize import WRITABLE, decode, encode, writable_format

# Steps of a block's largest number by which a value may be off.
STEPS = {
    Format.F32: 0.0,
    Format.F16: 2.0**-11,
    Format.BF16: 2.0**-8,
    Format.Q8_0: 1 / 200,
    Format.Q5_1: 1 / 15,
    Format.Q5_0: 1 / 12,
    Format.Q4_1: 1 / 7,
    Format.Q4_0: 1 / 6,
    Format.MXFP4: 1 / 2,
}
LARGE = st.floats(-1000.0, 1000.0, width=32, allow_subnormal=False)


@pytest.mark.parametrize("block_format", WRITABLE)
@given(values=arrays(np.float32, 64, elements=LARGE))
def test_numbers_come_back_nearly(block_format: Format, values: Floats) -> None:
    raw = encode(values, block_format, "a")
    assert len(raw) == row_bytes(block_format, 64)
    near = decode(raw, block_format, "a")
    largest = np.abs(values).reshape(-1, 32).max(axis=1, keepdims=True)
    off = np.abs(near - values).reshape(-1, 32)
    assert (off <= largest * STEPS[block_format] + 1e-4).all()


@pytest.mark.parametrize("block_format", WRITABLE)
def test_what_is_written_is_what_the_arithmetic_reads(block_format: Format) -> None:
    values = np.linspace(-3.0, 5.0, 4 * 64, dtype=np.float32)
    raw = encode(values, block_format, "a")
    matrix = Matrix(format=block_format, n_rows=4, n_cols=64, raw=memoryview(raw))
    own = decode(raw, block_format, "a")
    assert np.array_equal(own.reshape(4, 64), dequantize(matrix))


@pytest.mark.parametrize("block_format", [Format.Q6_K, Format.IQ4_XS, Format.Q2_K])
def test_formats_that_are_only_read(block_format: Format) -> None:
    matrix = fixed_matrix("w", block_format, 2, 256)
    own = decode(bytes(matrix.raw), block_format, "a")
    assert np.allclose(own.reshape(2, 256), dequantize(matrix), rtol=1e-5, atol=1e-7)


def test_formats_go_by_their_names() -> None:
    assert writable_format("q4_0") is Format.Q4_0
    assert writable_format(" MXFP4") is Format.MXFP4
    with pytest.raises(FormatNotWritable, match="'Q9' is no format") as caught:
        writable_format("Q9")
    assert "Q4_0" in caught.value.advice
    for name in ("Q4_K", "IQ3_S", "I32", "NVFP4"):
        with pytest.raises(FormatNotWritable, match=f"{name} cannot be written"):
            writable_format(name)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_b13_what_is_no_number_is_refused(bad: float) -> None:
    raw = np.full(32, bad, "<f4").tobytes()
    with pytest.raises(ConversionFailed, match=r"'blk.0.a' holds a value that is not"):
        decode(raw, Format.F32, "blk.0.a")


@pytest.mark.parametrize(
    "block_format", [f for f in WRITABLE if f not in {Format.F32, Format.BF16}]
)
def test_numbers_too_large_for_a_format_are_refused(block_format: Format) -> None:
    values = np.full(32, -1e30, np.float32)
    values[3] = 3e38
    if block_format is Format.MXFP4:
        near = decode(encode(values, block_format, "a"), block_format, "a")
        assert np.isfinite(near).all()
        return
    with pytest.raises(
        ConversionFailed, match=f"3e.38 is too large for {block_format.name}"
    ):
        encode(values, block_format, "a")


def test_integers_are_no_weights() -> None:
    with pytest.raises(ConversionFailed, match="I32 cannot be read as numbers"):
        decode(bytes(4), Format.I32, "a")
