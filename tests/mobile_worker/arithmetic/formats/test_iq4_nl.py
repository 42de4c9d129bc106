import struct

from mobile_worker.arithmetic.formats.iq4_nl import IQ4NL, TABLE
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(IQ4NL())


def test_one_block_by_hand() -> None:
    raw = struct.pack("<e16B", 0.5, *range(0x0F, 0xFF + 1, 0x10))
    codes, scales, minima = one_block(IQ4NL(), raw)
    assert codes == [[113] * 16 + TABLE.tolist()]
    assert (TABLE[0], TABLE[7], TABLE[8]) == (-127, -10, 1)
    assert scales == [0.5]
    assert minima is None
