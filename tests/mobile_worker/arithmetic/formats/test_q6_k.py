import struct

from mobile_worker.arithmetic.formats.q6_k import Q6K
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(Q6K())


def test_one_block_by_hand() -> None:
    low = [0x21] * 64 + [0x43] * 64
    high = [0xE4] * 32 + [0] * 32
    raw = struct.pack("<128B64B16be", *low, *high, *range(-8, 8), 0.5)
    codes, scales, minima = one_block(Q6K(), raw)
    first = [1, 1 + 16, 2 + 32, 2 + 48]
    expected = [each - 32 for value in (*first, 3, 3, 4, 4) for each in (value, value)]
    assert [own[0] for own in codes] == expected
    assert all(len(set(own)) == 1 for own in codes)
    assert scales == [0.5 * each for each in range(-8, 8)]
    assert minima is None
