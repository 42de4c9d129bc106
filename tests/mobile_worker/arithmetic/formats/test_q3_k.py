import struct

from mobile_worker.arithmetic.formats.q3_k import Q3K
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(Q3K())


def test_one_block_by_hand() -> None:
    low = [0x10, 0x32, 0x54, 0x76, 0x98, 0xBA, 0xDC, 0xFE]
    high = [0xE4] * 4  # scales 0 to 3 have 0 on top, 4 to 7 have 1, and so on
    third = [0x01] * 32  # the first 32 values alone keep their two bits as they are
    raw = struct.pack("<32B64B12Be", *third, *[0xE4] * 64, *low, *high, 0.5)
    codes, scales, minima = one_block(Q3K(), raw)
    bits = [0, 0, 1, 1, 2, 2, 3, 3] * 2
    assert [own[0] for own in codes] == bits[:2] + [each - 4 for each in bits[2:]]
    assert all(len(set(own)) == 1 for own in codes)
    packed = [0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15]
    expected = [(each | group // 4 << 4) - 32 for group, each in enumerate(packed)]
    assert scales == [0.5 * each for each in expected]
    assert minima is None
