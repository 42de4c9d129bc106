import struct

from mobile_worker.arithmetic.formats.q5_k import Q5K
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(Q5K())


def test_one_block_by_hand() -> None:
    packed = [1, 2, 3, 0xC4, 5, 6, 7, 0x48, 0x21, 0x43, 0x65, 0x87]
    fifths = [0x02] * 32
    raw = struct.pack(
        "<ee12B32B128B", 0.5, 2.0, *packed, *fifths, *[0x3C] * 32, *[0] * 96
    )
    codes, scales, minima = one_block(Q5K(), raw)
    assert codes == [[12] * 32, [3 + 16] * 32, *[[0] * 32] * 6]
    assert scales == [0.5 * each for each in (1, 2, 3, 4, 1, 3, 5, 7 + 48)]
    assert minima == [2.0 * each for each in (5, 6, 7, 8, 2, 4, 6, 8 + 16)]
