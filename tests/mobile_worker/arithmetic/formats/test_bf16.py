import struct

import numpy as np

from mobile_worker.arithmetic.formats.bf16 import BF16
from mobile_worker.arithmetic.formats.block_format import Format
from tests.support.formats import matrix_of


def test_values_widen_exactly_subnormals_included() -> None:
    bits = [0x0001, 0x8001, 0x0080, 0x7F7F, 0x3F80, 0x8000] + [0] * 26
    raw = struct.pack("<32H", *bits)
    values = BF16().values(matrix_of(Format.BF16, raw, 32))[0]
    expected = [2.0**-133, -(2.0**-133), 2.0**-126, (2 - 2**-7) * 2.0**127, 1.0, 0.0]
    assert values[:6].tolist() == expected
    assert np.signbit(values[5])
