import warnings

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.formats.block_format import Format, block_size
from mobile_worker.arithmetic.formats.codecs import (
    block_layout,
    dequantize,
    float_codec,
    integer_codec,
    is_integer,
    is_supported,
)
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.self_test import FORMATS, fixed_matrix

SUPPORTED = [f for f in Format if is_supported(f)]
INTEGER = [f for f in SUPPORTED if is_integer(f)]


def of_gguf(block_format: Format, raw: np.ndarray) -> np.ndarray:
    """Dequantise rows as the gguf package does."""
    kind = gguf.GGMLQuantizationType(int(block_format))
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return gguf.quants.dequantize(raw, kind)


def assert_as_gguf(block_format: Format, raw: np.ndarray) -> None:
    """Compare bit for bit; a value that is no number need only be none as well."""
    values, n_bytes = block_size(block_format)
    n_cols = raw.shape[1] // n_bytes * values
    own = dequantize(
        Matrix(
            format=block_format,
            n_rows=len(raw),
            n_cols=n_cols,
            raw=memoryview(raw.tobytes()),
        )
    )
    expected = of_gguf(block_format, raw)
    same = own.view(np.uint32) == expected.view(np.uint32)
    assert (same | (np.isnan(own) & np.isnan(expected))).all()


def rows_of_blocks(block_format: Format, raw: bytes, n_rows: int) -> np.ndarray:
    rows = np.frombuffer(raw, np.uint8).reshape(n_rows, -1).copy()
    if block_format is Format.MXFP4:  # 255 is a number to gguf, none to us
        rows[:, ::17] = np.minimum(rows[:, ::17], 254)
    return rows


@pytest.mark.parametrize("block_format", SUPPORTED)
@settings(max_examples=20)
@given(st.data())
def test_random_blocks_are_those_of_the_gguf_package(
    block_format: Format, data: st.DataObject
) -> None:
    values, n_bytes = block_size(block_format)
    size = 512 // values * n_bytes
    seed = data.draw(st.integers(0, 2**32 - 1))
    raw = np.random.default_rng(seed).bytes(5 * size)
    assert_as_gguf(block_format, rows_of_blocks(block_format, raw, 5))


@pytest.mark.parametrize("block_format", SUPPORTED)
@pytest.mark.parametrize("byte", [0x00, 0xFF, 0x80, 0x7B, 0x03, 0x55, 0xAA, 0x0F, 0xF0])
def test_edge_blocks_are_those_of_the_gguf_package(
    block_format: Format, byte: int
) -> None:
    values, n_bytes = block_size(block_format)
    raw = bytes([byte]) * (256 // values * n_bytes)
    assert_as_gguf(block_format, rows_of_blocks(block_format, raw, 1))


@pytest.mark.parametrize("block_format", SUPPORTED)
@settings(max_examples=30)
@given(st.data())
def test_any_bytes_at_all_are_those_of_the_gguf_package(
    block_format: Format, data: st.DataObject
) -> None:
    values, n_bytes = block_size(block_format)
    size = max(values, 32) // values * n_bytes
    raw = data.draw(st.binary(min_size=size, max_size=size))
    assert_as_gguf(block_format, rows_of_blocks(block_format, raw, 1))


@pytest.mark.parametrize("byte", range(256))
def test_each_scale_byte_of_mxfp4_and_nvfp4(byte: int) -> None:
    if byte != 255:
        mxfp4 = np.array([[byte, *range(16)]], np.uint8)
        assert_as_gguf(Format.MXFP4, mxfp4)
    nvfp4 = np.array([[byte, byte, byte, byte, *range(32)]], np.uint8)
    assert_as_gguf(Format.NVFP4, nvfp4)


@pytest.mark.parametrize("block_format", INTEGER)
def test_every_integer_format_has_the_same_shape(block_format: Format) -> None:
    codec, layout = integer_codec(block_format), block_layout(block_format)
    matrix = fixed_matrix("m", block_format, 3, 512)
    n_blocks = 512 // codec.width
    codes, scales, minima = (
        codec.codes(matrix),
        codec.scales(matrix),
        codec.minima(matrix),
    )
    assert codec.format is block_format
    assert (layout.width, layout.has_minima) == (codec.width, codec.has_minima)
    assert (codes.shape, codes.dtype) == ((3, n_blocks, codec.width), np.int8)
    assert (scales.shape, scales.dtype) == ((3, n_blocks), np.float32)
    assert (minima is not None) == codec.has_minima
    if minima is not None:
        assert (minima.shape, minima.dtype) == ((3, n_blocks), np.float32)


def test_what_is_supported() -> None:
    assert set(SUPPORTED) == set(FORMATS)
    assert set(SUPPORTED) - set(INTEGER) == {Format.F32, Format.F16, Format.BF16}
    assert block_layout(Format.BF16) is None
    with_minima = {f for f in INTEGER if block_layout(f).has_minima}
    assert {f.name for f in with_minima} == {"Q4_1", "Q5_1", "Q2_K", "Q4_K", "Q5_K"}
    narrow = {f for f in INTEGER if block_layout(f).width == 16}
    assert {f.name for f in narrow} == {"Q2_K", "Q3_K", "Q6_K", "NVFP4"}


def test_others_are_refused_by_name() -> None:
    with pytest.raises(FormatUnsupported, match="IQ2_XS"):
        is_integer(Format.IQ2_XS)
    with pytest.raises(FormatUnsupported, match="F32"):
        integer_codec(Format.F32)
    with pytest.raises(FormatUnsupported, match="IQ2_XS"):
        block_layout(Format.IQ2_XS)
    with pytest.raises(FormatUnsupported, match="Q4_0"):
        float_codec(Format.Q4_0)
