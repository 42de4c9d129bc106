import struct

from mobile_worker.arithmetic.formats.q2_k import Q2K
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(Q2K())


def test_one_block_by_hand() -> None:
    scales_of = [group | (15 - group) << 4 for group in range(16)]
    raw = struct.pack("<16B64Bee", *scales_of, *[0xE4] * 32, *[0x1B] * 32, 0.5, 2.0)
    codes, scales, minima = one_block(Q2K(), raw)
    assert [own[0] for own in codes] == [0, 0, 1, 1, 2, 2, 3, 3, 3, 3, 2, 2, 1, 1, 0, 0]
    assert all(len(set(own)) == 1 for own in codes)
    assert scales == [0.5 * group for group in range(16)]
    assert minima == [2.0 * (15 - group) for group in range(16)]
