"""Fields of blocks as arrays: what the integer formats are put together from.

A matrix's bytes become [n_rows, n_blocks, bytes of a block]; every function here keeps
the axes before the last and works on all blocks at once. Nothing is interpreted: which
bytes are a scale and where a code's bits lie is each format's own business.
"""

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.formats.block_format import block_size
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["Bytes", "blocks_of", "half", "in_widths", "planes"]

Bytes = npt.NDArray[np.uint8]


def blocks_of(matrix: Matrix) -> Bytes:
    """Return a matrix's own bytes, u8 [n_rows, n_blocks, bytes of a block]."""
    values, n_bytes = block_size(matrix.format)
    raw = np.frombuffer(matrix.raw, np.uint8)
    return raw.reshape(matrix.n_rows, matrix.n_cols // values, n_bytes)


def half(blocks: Bytes, at: int) -> Floats:
    """Return the f16 at byte `at` of each block, widened exactly: f32 [..., 1]."""
    raw = np.ascontiguousarray(blocks[..., at : at + 2])
    return raw.view("<f2").astype(np.float32)


def planes(raw: Bytes, n_bits: int) -> Bytes:
    """Cut bytes into numbers of 1, 2 or 4 bits, the lowest bits of all bytes first.

    u8 [..., n] -> u8 [..., 8 / n_bits * n]: number p of byte i becomes p * n + i.
    """
    *outer, n = raw.shape
    cut = np.empty((*outer, 8 // n_bits, n), np.uint8)
    for plane in range(8 // n_bits):
        np.right_shift(raw, plane * n_bits, out=cut[..., plane, :])
    cut &= (1 << n_bits) - 1
    return cut.reshape(*outer, -1)


def in_widths(codes: npt.NDArray[np.int8], width: int) -> npt.NDArray[np.int8]:
    """Put the codes of each row side by side: [n_rows, n_cols / width, width]."""
    return codes.reshape(len(codes), -1, width)
