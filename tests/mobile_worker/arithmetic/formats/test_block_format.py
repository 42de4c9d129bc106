import gguf
import pytest

from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.formats.block_format import (
    Format,
    block_bytes,
    block_values,
    row_bytes,
)


@pytest.mark.parametrize("block_format", list(Format))
def test_sizes_are_ggmls(block_format: Format) -> None:
    name = gguf.GGMLQuantizationType(int(block_format))
    assert name.name == block_format.name
    sizes = (block_values(block_format), block_bytes(block_format))
    assert gguf.GGML_QUANT_SIZES[name] == sizes


def test_b05_rows_are_whole_blocks() -> None:
    assert row_bytes(Format.Q4_K, 4096) == 2304
    assert 14336 * row_bytes(Format.Q4_K, 4096) == 33_030_144
    with pytest.raises(MatrixMalformed, match="1000"):
        row_bytes(Format.Q8_0, 1000)
    with pytest.raises(MatrixMalformed):
        row_bytes(Format.Q8_0, 0)
