import struct

from mobile_worker.arithmetic.formats.q8_0 import Q80
from tests.support.formats import assert_as_oracle, one_block


def test_every_row_is_what_a_plain_reader_finds() -> None:
    assert_as_oracle(Q80())


def test_one_block_by_hand() -> None:
    raw = struct.pack("<e32b", -0.5, -128, 127, *range(30))
    codes, scales, minima = one_block(Q80(), raw)
    assert codes == [[-128, 127, *range(30)]]  # -128 is legal in a weight
    assert scales == [-0.5]
    assert minima is None
