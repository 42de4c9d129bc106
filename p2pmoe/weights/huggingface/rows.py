"""Tensors that are computed as they are read: rows of values from stored rows.

A `Rows` fills any run of its rows; what it needs for that is read on the spot and never
kept. So a tensor of a folder opens in no time, and reading one expert of a stacked
tensor touches that expert's bytes alone. Work goes on in pieces of about a megabyte,
however much is asked for. Values stay bits: BF16 and F16 are held as u16, whole block
formats as u8, so that moving them about cannot change them.

All of them may be used from several threads: nothing here changes once made.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from p2pmoe.weights.byte_source import OpenFile

__all__ = [
    "Columns",
    "Constant",
    "Every",
    "Items",
    "Joined",
    "PlusOne",
    "Reordered",
    "Rows",
    "Stored",
    "Transposed",
    "Widened",
    "runs",
]

Items = npt.NDArray[Any]

_PIECE_BYTES = 1 << 20
_U16 = np.dtype(np.uint16)
_F32 = np.dtype(np.float32)


class Rows(Protocol):
    """A matrix [n_rows, n_items] of `dtype` that is computed when asked for."""

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        ...

    @property
    def n_items(self) -> int:
        """Items of a row."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """What an item is held as."""
        ...

    def fill(self, first: int, out: Items) -> None:
        """Fill `out` [n, n_items], contiguous, with the rows from `first` on.

        Raises:
            ModelFileError: a file cannot be read, or holds what is not finite.
        """
        ...


def runs(n_rows: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield (first, number) over `n_rows` in pieces of about a megabyte."""
    step = max(1, _PIECE_BYTES // max(1, row_bytes))
    for first in range(0, n_rows, step):
        yield first, min(step, n_rows - first)


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows as a file has them, from `offset` on."""

    file: OpenFile
    offset: int
    n_rows: int
    n_items: int
    dtype: np.dtype[Any]

    def fill(self, first: int, out: Items) -> None:
        """Read straight into `out`."""
        at = self.offset + first * self.n_items * self.dtype.itemsize
        self.file.read_into(at, out.reshape(-1).view(np.uint8).data)


class Widened:
    """BF16 or F16 rows as F32; exact."""

    def __init__(self, rows: Rows, *, is_bfloat: bool) -> None:
        """Widen `rows`, which are u16."""
        self._rows = rows
        self._is_bfloat = is_bfloat
        self.n_rows = rows.n_rows
        self.n_items = rows.n_items
        self.dtype = _F32

    def fill(self, first: int, out: Items) -> None:
        """Read and widen piece by piece."""
        for at, number in runs(len(out), self.n_items * 2):
            piece = np.empty((number, self.n_items), _U16)
            self._rows.fill(first + at, piece)
            if self._is_bfloat:
                wide = np.left_shift(piece, 16, dtype=np.uint32)
                out[at : at + number] = wide.view(_F32)
            else:
                with np.errstate(invalid="ignore"):
                    out[at : at + number] = piece.view(np.float16)


class PlusOne:
    """F32 rows plus 1: norms that are stored as their distance from 1."""

    def __init__(self, rows: Rows) -> None:
        """Add to `rows`, which are F32."""
        self._rows = rows
        self.n_rows = rows.n_rows
        self.n_items = rows.n_items
        self.dtype = _F32

    def fill(self, first: int, out: Items) -> None:
        """Read, then add."""
        self._rows.fill(first, out)
        with np.errstate(invalid="ignore"):  # what is no number stays none
            out += np.float32(1.0)


class Joined:
    """Rows of several parts, one behind the other; all have the same items."""

    def __init__(self, parts: Sequence[Rows]) -> None:
        """Join one part or more."""
        self._parts = tuple(parts)
        self._starts = (0, *accumulate(part.n_rows for part in parts))
        self.n_rows = self._starts[-1]
        self.n_items = parts[0].n_items
        self.dtype = parts[0].dtype

    def fill(self, first: int, out: Items) -> None:
        """Fill from each part in turn."""
        filled = 0
        while filled < len(out):
            number = bisect_right(self._starts, first + filled) - 1
            within = first + filled - self._starts[number]
            part = self._parts[number]
            n_rows = min(len(out) - filled, part.n_rows - within)
            part.fill(within, out[filled : filled + n_rows])
            filled += n_rows


class Every:
    """`n_rows` rows from `start` on: each one, or each `step`-th."""

    def __init__(self, rows: Rows, start: int, n_rows: int, step: int = 1) -> None:
        """Pick from `rows`."""
        self._rows = rows
        self._start = start
        self._step = step
        self.n_rows = n_rows
        self.n_items = rows.n_items
        self.dtype = rows.dtype

    def fill(self, first: int, out: Items) -> None:
        """Read the span piece by piece and keep what is wanted of it."""
        if self._step == 1:
            self._rows.fill(self._start + first, out)
            return
        row_bytes = self.n_items * self.dtype.itemsize * self._step
        for at, number in runs(len(out), row_bytes):
            span = np.empty(((number - 1) * self._step + 1, self.n_items), self.dtype)
            self._rows.fill(self._start + (first + at) * self._step, span)
            out[at : at + number] = span[:: self._step]


class Reordered:
    """Rows in another order: row i is row `order[i]` of what it picks from."""

    def __init__(self, rows: Rows, order: npt.NDArray[np.intp]) -> None:
        """Pick `order` [n_rows] from `rows`."""
        self._rows = rows
        self._order = order
        self.n_rows = len(order)
        self.n_items = rows.n_items
        self.dtype = rows.dtype

    def fill(self, first: int, out: Items) -> None:
        """Read the span that a piece needs, or row by row where it is too wide."""
        row_bytes = self.n_items * self.dtype.itemsize
        for at, number in runs(len(out), row_bytes):
            wanted = self._order[first + at : first + at + number]
            low, span_rows = int(wanted.min()), int(np.ptp(wanted)) + 1
            if span_rows * row_bytes <= 4 * _PIECE_BYTES:
                span = np.empty((span_rows, self.n_items), self.dtype)
                self._rows.fill(low, span)
                out[at : at + number] = span[wanted - low]
            else:
                for place, row in enumerate(wanted):
                    self._rows.fill(int(row), out[at + place : at + place + 1])


class Columns:
    """Each `step`-th item of a row, from `start` on."""

    def __init__(self, rows: Rows, start: int, step: int) -> None:
        """Pick from `rows`."""
        self._rows = rows
        self._start = start
        self._step = step
        self.n_rows = rows.n_rows
        self.n_items = len(range(start, rows.n_items, step))
        self.dtype = rows.dtype

    def fill(self, first: int, out: Items) -> None:
        """Read whole rows piece by piece and keep what is wanted of them."""
        for at, number in runs(len(out), self._rows.n_items * self.dtype.itemsize):
            piece = np.empty((number, self._rows.n_items), self.dtype)
            self._rows.fill(first + at, piece)
            out[at : at + number] = piece[:, self._start :: self._step]


class Transposed:
    """The matrix of `n_items` stored rows from `start` on, columns as rows."""

    def __init__(self, rows: Rows, start: int, n_items: int) -> None:
        """Turn a part of `rows`."""
        self._rows = rows
        self._start = start
        self.n_rows = rows.n_items
        self.n_items = n_items
        self.dtype = rows.dtype

    def fill(self, first: int, out: Items) -> None:
        """Read the whole matrix piece by piece; keep the columns wanted."""
        for at, number in runs(self.n_items, self.n_rows * self.dtype.itemsize):
            piece = np.empty((number, self.n_rows), self.dtype)
            self._rows.fill(self._start + at, piece)
            out[:, at : at + number] = piece[:, first : first + len(out)].T


class Constant:
    """Rows that were computed beforehand; small ones."""

    def __init__(self, values: Items) -> None:
        """Give `values` [n_rows, n_items]."""
        self._values = values
        self.n_rows, self.n_items = values.shape
        self.dtype = values.dtype

    def fill(self, first: int, out: Items) -> None:
        """Copy."""
        out[...] = self._values[first : first + len(out)]
