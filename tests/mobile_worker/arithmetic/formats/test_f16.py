import struct

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.f16 import F16
from mobile_worker.arithmetic.matrix import Matrix


def test_values_widen_exactly_subnormals_included() -> None:
    bits = [0x0001, 0x83FF, 0x0400, 0x7BFF, 0x3C00, 0x8000] + [0] * 26
    raw = struct.pack("<32H", *bits)
    matrix = Matrix(format=Format.F16, n_rows=1, n_cols=32, raw=memoryview(raw))
    values = F16().values(matrix)[0]
    expected = [2.0**-24, -1023 * 2.0**-24, 2.0**-14, 65504.0, 1.0, -0.0]
    assert values[:6].tolist() == expected
