import gguf

from mobile_worker.arithmetic.formats.block_format import (
    Format,
    block_bytes,
    block_values,
)
from p2pmoe.weights.ggml_types import GgmlType, block_size


def test_numbers_and_sizes_are_those_of_the_reference() -> None:
    known = {
        int(kind): (kind.name, gguf.GGML_QUANT_SIZES[kind])
        for kind in gguf.GGMLQuantizationType
    }
    ours = {int(kind): (kind.name, block_size(kind)) for kind in GgmlType}
    assert ours == known


def test_they_agree_with_the_arithmetic() -> None:
    for kind in Format:
        assert block_size(GgmlType(kind)) == (block_values(kind), block_bytes(kind))
        assert GgmlType(kind) == kind
        assert GgmlType(kind).name == kind.name
