import struct

from mobile_worker.arithmetic.formats.q4_0 import Q40
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(Q40())


def test_one_block_by_hand() -> None:
    raw = struct.pack("<H16B", 0x0001, *range(0x0F, 0xFF + 1, 0x10))
    codes, scales, minima = one_block(Q40(), raw)
    assert codes == [[7] * 16 + list(range(-8, 8))]
    assert scales == [2.0**-24]  # a subnormal f16
    assert minima is None
