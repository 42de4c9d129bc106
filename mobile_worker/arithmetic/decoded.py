"""A bounded memory of decoded weights, so that hot matrices are unpacked once.

Weights rest in their file's own bytes; unpacked to f32 codes they take 4 bytes a
weight. This cache holds as many of them as its budget allows and drops those unused
longest. It is keyed by the matrices themselves, never by their place in memory, and
forgets what belongs to a matrix that nobody else holds. Safe to use from threads.
"""

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from mobile_worker.arithmetic.errors import ShapeMismatch
from mobile_worker.arithmetic.formats.codecs import (
    block_layout,
    float_codec,
    integer_codec,
)
from mobile_worker.arithmetic.lanes import lane_weights
from mobile_worker.arithmetic.matrix import Matrix

__all__ = ["DecodedCache", "DecodedCodes", "decode_codes", "decode_floats"]

Matrices = tuple[Matrix, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DecodedCodes:
    """Integer weights of matrices stacked by rows, laid out block by block."""

    codes: Floats  # [n_blocks, n_rows, width], width 16 or 32
    scales: Floats  # [n_blocks, n_rows, 1]
    minima: Floats | None  # [n_blocks, n_rows, 1]

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        minima = 0 if self.minima is None else self.minima.nbytes
        return self.codes.nbytes + self.scales.nbytes + minima


def decode_codes(matrices: Matrices) -> DecodedCodes:
    """Unpack integer matrices of equal columns and layout, one below the other.

    The layout is equal where `block_layout` is; ShapeMismatch if it is not.
    """
    if len({block_layout(matrix.format) for matrix in matrices}) != 1:
        raise ShapeMismatch("stacked matrices differ in their blocks")
    first = integer_codec(matrices[0].format)
    n_rows = sum(matrix.n_rows for matrix in matrices)
    n_blocks = matrices[0].n_cols // first.width
    codes = np.empty((n_blocks, n_rows, first.width), np.float32)
    scales = np.empty((n_blocks, n_rows, 1), np.float32)
    minima = np.empty_like(scales) if first.has_minima else None
    row = 0
    for matrix in matrices:
        codec = integer_codec(matrix.format)
        end = row + matrix.n_rows
        codes[:, row:end] = codec.codes(matrix).transpose(1, 0, 2)
        scales[:, row:end, 0] = codec.scales(matrix).T
        own = codec.minima(matrix)
        if minima is not None and own is not None:
            minima[:, row:end, 0] = own.T
        row = end
    return DecodedCodes(codes=codes, scales=scales, minima=minima)


def decode_floats(matrices: Matrices) -> Floats:
    """Widen float matrices of equal width, side by side, for `lane_matmul`."""
    values = [float_codec(matrix.format).values(matrix) for matrix in matrices]
    return lane_weights(np.concatenate(values) if len(values) > 1 else values[0])


@dataclass(slots=True, kw_only=True, eq=False)
class _Entry:
    value: DecodedCodes | Floats
    n_bytes: int
    watches: list[weakref.ref[Matrix]]


class DecodedCache:
    """Decoded matrices within a budget of bytes, least recently used first out."""

    def __init__(self, max_bytes: int) -> None:
        """Hold at most `max_bytes`; 0 keeps nothing."""
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self._entries: OrderedDict[tuple[int, ...], _Entry] = OrderedDict()
        self._lock = threading.RLock()

    def codes(self, matrices: Matrices) -> DecodedCodes:
        """Return `decode_codes(matrices)`, remembered if the budget allows."""
        value = self._get(matrices, decode_codes)
        if not isinstance(value, DecodedCodes):
            raise TypeError("these matrices were decoded as floats")
        return value

    def floats(self, matrices: Matrices) -> Floats:
        """Return `decode_floats(matrices)`, remembered if the budget allows."""
        value = self._get(matrices, decode_floats)
        if isinstance(value, DecodedCodes):
            raise TypeError("these matrices were decoded as codes")
        return value

    def _get(
        self, matrices: Matrices, decode: Callable[[Matrices], DecodedCodes | Floats]
    ) -> DecodedCodes | Floats:
        key = tuple(map(id, matrices))
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return entry.value
        value = decode(matrices)
        if value.nbytes <= self.max_bytes:
            self._keep(key, matrices, value, value.nbytes)
        return value

    def _keep(
        self,
        key: tuple[int, ...],
        matrices: Matrices,
        value: DecodedCodes | Floats,
        n_bytes: int,
    ) -> None:
        def forget(_: weakref.ref[Matrix]) -> None:
            self._forget(key)

        watches = [weakref.ref(matrix, forget) for matrix in matrices]
        with self._lock:
            self._forget(key)
            while self._entries and self.n_bytes + n_bytes > self.max_bytes:
                self._forget(next(iter(self._entries)))
            entry = _Entry(value=value, n_bytes=n_bytes, watches=watches)
            self._entries[key] = entry
            self.n_bytes += n_bytes

    def _forget(self, key: tuple[int, ...]) -> None:
        with self._lock:
            entry = self._entries.pop(key, None)
            if entry is not None:
                self.n_bytes -= entry.n_bytes
