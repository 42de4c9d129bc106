import gguf
import numpy as np
import pytest

from mobile_worker.arithmetic.errors import FormatUnsupported
from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.codecs import (
    dequantize,
    float_codec,
    integer_codec,
    is_integer,
    is_supported,
)
from mobile_worker.arithmetic.self_test import FORMATS, fixed_matrix


@pytest.mark.parametrize("block_format", FORMATS)
def test_numbers_are_those_of_the_gguf_package(block_format: Format) -> None:
    matrix = fixed_matrix("m", block_format, 5, 96)
    raw = np.frombuffer(matrix.raw, np.uint8).reshape(5, -1)
    expected = gguf.quants.dequantize(raw, gguf.GGMLQuantizationType(int(block_format)))
    assert np.array_equal(dequantize(matrix), expected)


def test_what_is_supported() -> None:
    assert {f for f in Format if is_supported(f)} == set(FORMATS)
    assert {f for f in FORMATS if is_integer(f)} == {Format.Q4_0, Format.Q8_0}


def test_others_are_refused_by_name() -> None:
    with pytest.raises(FormatUnsupported, match="Q6_K"):
        is_integer(Format.Q6_K)
    with pytest.raises(FormatUnsupported, match="F32"):
        integer_codec(Format.F32)
    with pytest.raises(FormatUnsupported, match="Q4_0"):
        float_codec(Format.Q4_0)
