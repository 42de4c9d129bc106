import struct

from mobile_worker.arithmetic.formats.q4_1 import Q41
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(Q41())


def test_one_block_by_hand() -> None:
    raw = struct.pack("<ee16B", 0.25, -3.5, *range(0x0F, 0xFF + 1, 0x10))
    codes, scales, minima = one_block(Q41(), raw)
    assert codes == [[15] * 16 + list(range(16))]
    assert scales == [0.25]
    assert minima == [3.5]  # the file adds m, the specification subtracts it
