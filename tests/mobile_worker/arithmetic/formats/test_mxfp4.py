import struct

import numpy as np

from mobile_worker.arithmetic.formats.mxfp4 import E2M1_DOUBLED, MXFP4
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(MXFP4())


def test_one_block_by_hand() -> None:
    raw = struct.pack("<17B", 128, *range(0x07, 0xFF + 1, 0x10))
    codes, scales, minima = one_block(MXFP4(), raw)
    doubled = [0, 1, 2, 3, 4, 6, 8, 12]
    assert codes == [[12] * 16 + doubled + [-each for each in doubled]]
    assert codes[0][16:] == E2M1_DOUBLED.tolist()
    assert scales == [1.0]
    assert minima is None


def test_the_least_and_the_greatest_exponent() -> None:
    scales = [one_block(MXFP4(), bytes([e, *[0] * 16]))[1][0] for e in (0, 1, 254, 255)]
    assert scales[:3] == [2.0**-128, 2.0**-127, 2.0**126]
    assert np.isnan(scales[3])  # no number
