import struct

from mobile_worker.arithmetic.formats.iq4_xs import IQ4XS
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(IQ4XS())


def test_one_block_by_hand() -> None:
    low = [0x10, 0x32, 0x54, 0x76]
    raw = struct.pack("<eH4B128B", 0.5, 0b11_10_01_00_11_10_01_00, *low, *[0xF0] * 128)
    codes, scales, minima = one_block(IQ4XS(), raw)
    assert codes == [[-127] * 16 + [113] * 16] * 8
    expected = [group % 4 * 16 + group - 32 for group in range(8)]
    assert scales == [0.5 * each for each in expected]
    assert minima is None
