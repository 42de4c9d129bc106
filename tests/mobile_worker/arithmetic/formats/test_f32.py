import struct

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.f32 import F32
from mobile_worker.arithmetic.matrix import Matrix


def test_values_are_read_as_they_are() -> None:
    numbers = [2.0**-149, -3.0, *range(62)]
    raw = struct.pack("<64f", *numbers)
    matrix = Matrix(format=Format.F32, n_rows=2, n_cols=32, raw=memoryview(raw))
    assert F32().values(matrix).ravel().tolist() == numbers
