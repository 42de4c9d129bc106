import struct

from mobile_worker.arithmetic.formats.nvfp4 import NVFP4
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(NVFP4())


def test_one_block_by_hand() -> None:
    raw = struct.pack("<4B32B", 0x38, 0x01, 0x7E, 0x7F, *[0x71] * 32)
    codes, scales, minima = one_block(NVFP4(), raw)
    assert codes == [[1] * 8 + [12] * 8] * 4
    assert scales == [0.5, 2.0**-10, 224.0, 0.0]
    assert minima is None
