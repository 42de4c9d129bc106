"""Quantised matrices without a quantiser: random codes under scales of the right size.

Codes have a mean near zero (else every row would lean the same way and every token be
routed alike), and scales give a matrix's output a chosen standard deviation for input
of unit variance. One rule for each format that benchmarks ask for.
"""

import gguf
import numpy as np

__all__ = ["BlockPool"]

_POOL_BYTES = 1 << 26


class BlockPool:
    """Random blocks of one format, from which matrices are cut at random places."""

    def __init__(self, kind: gguf.GGMLQuantizationType) -> None:
        """Make the blocks; KeyError for a format without a rule here."""
        self._scale = _RULES[kind]
        self._rng = np.random.default_rng(2)
        self._values, self._size = gguf.GGML_QUANT_SIZES[kind]
        n = _POOL_BYTES // self._size
        self._blocks = self._rng.integers(0, 256, (n, self._size), np.uint8)

    def matrix(self, shape: tuple[int, ...], gain: float) -> np.ndarray:
        """Return blocks of random codes, u8 with the packed row as last axis.

        A row of unit variance comes out with a standard deviation of `gain`.
        """
        n = int(np.prod(shape)) // self._values
        first = int(self._rng.integers(0, len(self._blocks)))
        turns = -(-(first + n) // len(self._blocks))
        blocks = np.concatenate([self._blocks] * turns)[first : first + n]
        self._scale(blocks, gain / np.sqrt(shape[-1]))
        packed = shape[-1] // self._values * self._size
        return blocks.reshape(*shape[:-1], packed)


def _write_f16(blocks: np.ndarray, at: int, values: np.ndarray) -> None:
    blocks[:, at : at + 2] = values.astype("<f2").reshape(-1, 1).view(np.uint8)


def _spread(blocks: np.ndarray, sigma: float) -> np.ndarray:
    """Scales about sigma, 0.75 to 1.25 of it by a random byte of each block."""
    return sigma * (0.75 + blocks[:, -1].astype(np.float32) / 512)


def _scale_q4_0(blocks: np.ndarray, sigma: float) -> None:
    """Codes of -7 to 7: without a mean, and a standard deviation of 4.18."""
    codes = blocks[:, 2:]
    low, high = codes & 15, codes >> 4
    codes[:] = low + 8 * (low == 0) + (high + 8 * (high == 0) << 4)
    _write_f16(blocks, 0, _spread(blocks, sigma / 4.18))


def _scale_q8_0(blocks: np.ndarray, sigma: float) -> None:
    """Codes of -127 to 127: a standard deviation of 73.9."""
    codes = blocks[:, 2:]
    codes[codes == 128] = 129
    _write_f16(blocks, 0, _spread(blocks, sigma / 73.9))


def _scale_q4_k(blocks: np.ndarray, sigma: float) -> None:
    """Codes of 0 to 15, minima as large as the scales, so that the mean is near 0."""
    blocks[:, 8:12] = blocks[:, 4:8]
    low = blocks[:, 12:16] & 15
    blocks[:, 12:16] = low | low << 4
    d = _spread(blocks, sigma / (4.61 * 36.4))  # sqrt of the mean squared 6-bit scale
    _write_f16(blocks, 0, d)
    _write_f16(blocks, 2, 7.5 * d)


_RULES = {
    gguf.GGMLQuantizationType.Q4_0: _scale_q4_0,
    gguf.GGMLQuantizationType.Q8_0: _scale_q8_0,
    gguf.GGMLQuantizationType.Q4_K: _scale_q4_k,
}
