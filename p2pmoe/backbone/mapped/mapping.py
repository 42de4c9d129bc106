"""Open files as one stretch of read-only memory, and experts as views of it.

For the child alone: touching a page that its file has lost ends the process. The files
lie end to end, as in `FileBytes`; a part of an expert lies within one of them. What is
about to be computed is asked for ahead (`will_need`), in pieces small enough for any
disk's settings, so that the disk works on all of it while the first is computed; beyond
that nothing is read ahead, since experts that are used together do not lie together.
"""

import mmap
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from mobile_worker.arithmetic.activation_kind import Activation
from mobile_worker.arithmetic.errors import MatrixMalformed
from mobile_worker.arithmetic.formats.codecs import is_integer
from mobile_worker.arithmetic.matrix import ExpertWeights, Matrix
from p2pmoe.weights.experts import ExpertRanges, MatrixRange

__all__ = ["MappedFiles"]

_PIECE = 1 << 17
_RANDOM = getattr(mmap, "MADV_RANDOM", None)
_WILL_NEED = getattr(mmap, "MADV_WILLNEED", None)


class MappedFiles:
    """Files that were opened by another; maps all of each."""

    def __init__(self, fds: Sequence[int]) -> None:
        """Map them, in their order; OSError or ValueError where that cannot be."""
        self._maps = [mmap.mmap(fd, 0, access=mmap.ACCESS_READ) for fd in fds]
        self._starts = (0, *accumulate(len(one) for one in self._maps))
        if _RANDOM is not None:
            for one in self._maps:
                one.madvise(_RANDOM)

    def will_need(self, ranges: ExpertRanges) -> None:
        """Ask the system to read an expert soon; does not wait."""
        if _WILL_NEED is None:
            return
        for offset, n_bytes in ranges.parts:
            one, at = self._find(offset, n_bytes)
            first = at - at % mmap.PAGESIZE
            for piece in range(first, at + n_bytes, _PIECE):
                length = min(_PIECE, at + n_bytes - piece)
                one.madvise(_WILL_NEED, piece, length)

    def weights(self, ranges: ExpertRanges, activation: Activation) -> ExpertWeights:
        """Return an expert's matrices as views, its biases as copies.

        Raises:
            MatrixMalformed: it does not lie in the files, or its parts do not fit.
            FormatUnsupported: it cannot be computed with.
        """
        gate, up, down = map(self._matrix, (ranges.gate, ranges.up, ranges.down))
        biases = [
            np.frombuffer(self._view(bias.offset, bias.n_bytes), "<f4").astype("f4")
            for bias in ranges.biases
        ]
        gate_bias, up_bias, down_bias = biases or (None,) * 3
        return ExpertWeights(
            gate=gate,
            up=up,
            down=down,
            activation=activation,
            gate_bias=gate_bias,
            up_bias=up_bias,
            down_bias=down_bias,
        )

    def _matrix(self, part: MatrixRange) -> Matrix:
        is_integer(part.format)  # refuses what cannot be computed with
        return Matrix(
            format=part.format,
            n_rows=part.n_rows,
            n_cols=part.n_cols,
            raw=self._view(part.offset, part.n_bytes),
        )

    def _view(self, offset: int, n_bytes: int) -> memoryview:
        one, at = self._find(offset, n_bytes)
        return memoryview(one)[at : at + n_bytes]

    def _find(self, offset: int, n_bytes: int) -> tuple[mmap.mmap, int]:
        """Return the mapping that holds a range, and where in it; MatrixMalformed."""
        number = bisect_right(self._starts, offset) - 1
        if 0 <= number < len(self._maps):
            at = offset - self._starts[number]
            if at + n_bytes <= len(self._maps[number]):
                return self._maps[number], at
        raise MatrixMalformed(f"{n_bytes} bytes at {offset} lie in no file")
