"""MXFP4 as gpt-oss is published, repacked into GGUF's blocks without a change of value.

Published: for each row, blocks of 32 values as 16 bytes, two values a byte with the
first in the low half, and apart from them one E8M0 scale a block. GGUF: one block is
the scale byte, then 16 bytes of which byte i has value i in its low half and value
i + 16 in its high half. The 4-bit codes and the scales mean the same in both.

Source: the model card of gpt-oss and ggml's block_mxfp4.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.huggingface.rows import Items, Rows, runs

__all__ = ["BLOCK_BYTES", "BLOCK_VALUES", "Mxfp4Rows"]

BLOCK_VALUES = 32
BLOCK_BYTES = 17
_CODE_BYTES = 16
_NOT_A_NUMBER = 255
_U8 = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class Mxfp4Rows:
    """Rows of GGUF's MXFP4 blocks; `codes` has 16 bytes a block, `scales` one."""

    path: Path
    name: str
    codes: Rows
    scales: Rows

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        return self.codes.n_rows

    @property
    def n_items(self) -> int:
        """Bytes of a row."""
        return self.scales.n_items * BLOCK_BYTES

    @property
    def dtype(self) -> np.dtype[Any]:
        """Bytes."""
        return _U8

    def fill(self, first: int, out: Items) -> None:
        """Repack piece by piece; ModelFileError if a scale is no number."""
        n_blocks = self.scales.n_items
        for at, number in runs(len(out), self.n_items):
            codes = np.empty((number, n_blocks * _CODE_BYTES), _U8)
            self.codes.fill(first + at, codes)
            scales = np.empty((number, n_blocks), _U8)
            self.scales.fill(first + at, scales)
            if (scales == _NOT_A_NUMBER).any():
                raise ModelFileError(
                    self.path, "a scale is not finite", tensor=self.name
                )
            blocks = out[at : at + number].reshape(number, n_blocks, BLOCK_BYTES)
            blocks[:, :, 0] = scales
            pairs = codes.reshape(number, n_blocks, 2, _CODE_BYTES // 2)
            low, high = pairs[:, :, 0], pairs[:, :, 1]  # values 0..15, values 16..31
            blocks[:, :, 1::2] = (low & 15) | (high << 4)
            blocks[:, :, 2::2] = (low >> 4) | (high & 240)
