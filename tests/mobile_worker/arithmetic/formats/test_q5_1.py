import struct

from mobile_worker.arithmetic.formats.q5_1 import Q51
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(Q51())


def test_one_block_by_hand() -> None:
    raw = struct.pack("<eeI16B", 0.5, 2.0, 0x8000_0001, *[0x21] * 16)
    codes, scales, minima = one_block(Q51(), raw)
    assert codes == [[17, *[1] * 15, *[2] * 15, 18]]
    assert scales == [0.5]
    assert minima == [-2.0]
