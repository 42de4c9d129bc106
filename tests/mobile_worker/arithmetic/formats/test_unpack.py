import struct

import numpy as np

from mobile_worker.arithmetic.formats.block_format import Format
from mobile_worker.arithmetic.formats.unpack import blocks_of, half, in_widths, planes
from tests.support.formats import matrix_of


def test_blocks_are_a_view_of_the_matrix() -> None:
    raw = bytes(range(2 * 3 * 18))
    blocks = blocks_of(matrix_of(Format.Q4_0, raw, 96))
    assert blocks.shape == (2, 3, 18)
    assert blocks.tobytes() == raw
    assert not blocks.flags.owndata


def test_halves_widen_exactly() -> None:
    raw = struct.pack("<BHB BHB", 9, 0x0001, 9, 9, 0xFBFF, 9)
    blocks = np.frombuffer(raw, np.uint8).reshape(1, 2, 4)
    assert half(blocks, 1).ravel().tolist() == [2.0**-24, -65504.0]


def test_the_lowest_bits_of_all_bytes_come_first() -> None:
    raw = np.array([[0xE4, 0x1B]], np.uint8)
    assert planes(raw, 4).tolist() == [[4, 11, 14, 1]]
    assert planes(raw, 2).tolist() == [[0, 3, 1, 2, 2, 1, 3, 0]]
    assert planes(raw, 1)[0].tolist() == [
        *[0, 1, 0, 1, 1, 0, 0, 1],
        *[0, 1, 1, 0, 1, 0, 1, 0],
    ]


def test_codes_are_put_side_by_side() -> None:
    codes = np.arange(64, dtype=np.int8).reshape(2, 1, 2, 16)
    assert in_widths(codes, 32).shape == (2, 1, 32)
    assert in_widths(codes, 16)[1, 1].tolist() == list(range(48, 64))
