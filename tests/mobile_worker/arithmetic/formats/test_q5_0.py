import struct

from mobile_worker.arithmetic.formats.q5_0 import Q50
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(Q50())


def test_one_block_by_hand() -> None:
    raw = struct.pack("<eI16B", 0.5, 0x8000_0001, *[0x21] * 16)
    codes, scales, minima = one_block(Q50(), raw)
    assert codes == [[1, *[-15] * 15, *[-14] * 15, 2]]
    assert scales == [0.5]
    assert minima is None
