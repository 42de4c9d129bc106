import struct

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.q4_0 import Q40
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.self_test import fixed_matrix
from tests.support import arithmetic_oracle as oracle


def test_codes_and_scales_of_every_row() -> None:
    matrix = fixed_matrix("m", Format.Q4_0, 4, 96)
    codes, scales = Q40().codes(matrix), Q40().scales(matrix)
    size = len(matrix.raw) // 4
    for i in range(4):
        own = oracle.read_row("Q4_0", bytes(matrix.raw[i * size : (i + 1) * size]))
        assert codes[i].ravel().tolist() == own[0]
        assert scales[i].tolist() == own[1]


def test_one_block_by_hand() -> None:
    raw = struct.pack("<H16B", 0x0001, *range(0x0F, 0xFF + 1, 0x10))
    matrix = Matrix(format=Format.Q4_0, n_rows=1, n_cols=32, raw=memoryview(raw))
    codes = Q40().codes(matrix)[0, 0]
    assert codes.tolist() == [7] * 16 + list(range(-8, 8))
    assert Q40().scales(matrix)[0, 0] == np.float32(2.0**-24)  # a subnormal f16
