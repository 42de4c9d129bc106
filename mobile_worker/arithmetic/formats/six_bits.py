"""The eight 6-bit scales and eight 6-bit minima of a Q4_K or Q5_K block.

bytes 0 to 3   scale j in the low 6 bits, the high 2 bits of scale j + 4 above
bytes 4 to 7   minimum j in the low 6 bits, the high 2 bits of minimum j + 4 above
bytes 8 to 11  the low 4 bits of scale j + 4, those of minimum j + 4 above
"""

import numpy as np

from mobile_worker.arithmetic.formats.unpack import Bytes

__all__ = ["six_bit_minima", "six_bit_scales"]


def six_bit_scales(packed: Bytes) -> Bytes:
    """Return the scales of each block: u8 [..., 12] -> u8 [..., 8]."""
    first, low = packed[..., 0:4], packed[..., 8:12] & 15
    return np.concatenate([first & 63, low | (first >> 6) << 4], axis=-1)


def six_bit_minima(packed: Bytes) -> Bytes:
    """Return the minima of each block: u8 [..., 12] -> u8 [..., 8]."""
    first, low = packed[..., 4:8], packed[..., 8:12] >> 4
    return np.concatenate([first & 63, low | (first >> 6) << 4], axis=-1)
