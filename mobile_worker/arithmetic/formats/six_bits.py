"""The head of a Q4_K or Q5_K block: eight scales and eight minima of 6 bits each.

    f16 d | f16 dmin | 12 bytes, of which
    bytes 0 to 3   scale j in the low 6 bits, the high 2 bits of scale j + 4 above
    bytes 4 to 7   minimum j in the low 6 bits, the high 2 bits of minimum j + 4 above
    bytes 8 to 11  the low 4 bits of scale j + 4, those of minimum j + 4 above

s = fl(d * sc), minimum = fl(dmin * mn).
"""

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.unpack import Bytes, blocks_of, half
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["head_minima", "head_scales", "six_bit_minima", "six_bit_scales"]


def head_scales(matrix: Matrix) -> Floats:
    """Return the scales of Q4_K or Q5_K rows, f32 [n_rows, n_cols / 32]."""
    blocks = blocks_of(matrix)
    factors = six_bit_scales(blocks[:, :, 4:16]).astype(np.float32)
    return (half(blocks, 0) * factors).reshape(matrix.n_rows, -1)


def head_minima(matrix: Matrix) -> Floats:
    """Return the minima of Q4_K or Q5_K rows, f32 [n_rows, n_cols / 32]."""
    blocks = blocks_of(matrix)
    factors = six_bit_minima(blocks[:, :, 4:16]).astype(np.float32)
    return (half(blocks, 2) * factors).reshape(matrix.n_rows, -1)


def six_bit_scales(packed: Bytes) -> Bytes:
    """Return the scales of each block: u8 [..., 12] -> u8 [..., 8]."""
    first, low = packed[..., 0:4], packed[..., 8:12] & 15
    return np.concatenate([first & 63, low | (first >> 6) << 4], axis=-1)


def six_bit_minima(packed: Bytes) -> Bytes:
    """Return the minima of each block: u8 [..., 12] -> u8 [..., 8]."""
    first, low = packed[..., 4:8], packed[..., 8:12] >> 4
    return np.concatenate([first & 63, low | (first >> 6) << 4], axis=-1)
