import struct

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.q8_0 import Q80
from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.self_test import fixed_matrix
from tests.support import arithmetic_oracle as oracle


def test_codes_and_scales_of_every_row() -> None:
    matrix = fixed_matrix("m", Format.Q8_0, 4, 96)
    codes, scales = Q80().codes(matrix), Q80().scales(matrix)
    size = len(matrix.raw) // 4
    for i in range(4):
        own = oracle.read_row("Q8_0", bytes(matrix.raw[i * size : (i + 1) * size]))
        assert codes[i].ravel().tolist() == own[0]
        assert scales[i].tolist() == own[1]


def test_one_block_by_hand() -> None:
    raw = struct.pack("<e32b", -0.5, -128, 127, *range(30))
    matrix = Matrix(format=Format.Q8_0, n_rows=1, n_cols=32, raw=memoryview(raw))
    assert Q80().codes(matrix)[0, 0].tolist() == [-128, 127, *range(30)]
    assert Q80().scales(matrix)[0, 0] == np.float32(-0.5)
