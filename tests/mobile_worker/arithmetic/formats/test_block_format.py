import gguf
import pytest

from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.formats.block_format import Format, block_size, row_bytes


def test_numbers_and_sizes_are_those_of_the_reference() -> None:
    known = {
        int(kind): (kind.name, gguf.GGML_QUANT_SIZES[kind])
        for kind in gguf.GGMLQuantizationType
    }
    assert {int(kind): (kind.name, block_size(kind)) for kind in Format} == known


def test_b05_rows_are_whole_blocks() -> None:
    assert row_bytes(Format.Q4_K, 4096) == 2304
    assert 14336 * row_bytes(Format.Q4_K, 4096) == 33_030_144
    with pytest.raises(MatrixMalformed, match="1000"):
        row_bytes(Format.Q8_0, 1000)
    with pytest.raises(MatrixMalformed):
        row_bytes(Format.Q8_0, 0)
