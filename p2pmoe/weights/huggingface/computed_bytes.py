"""The address space of a folder's tensors: bytes that are computed when they are read.

Each tensor has an aligned place; between places are zeros. Whole rows are filled where
they are wanted, without a copy; a range that begins or ends within a row costs that
row. Safe from several threads, since rows keep nothing.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path

import numpy as np

from mobile_worker.arithmetic.formats.block_format import block_size
from p2pmoe.weights.byte_source import OpenFile, stamp_of
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.gguf import Tensor
from p2pmoe.weights.huggingface.rows import Rows
from p2pmoe.weights.huggingface.stored_views import MAX_COLUMNS
from p2pmoe.weights.huggingface.views import View

__all__ = ["ComputedBytes", "lay_out"]

_ALIGNMENT = 32


def lay_out(path: Path, views: Mapping[str, View]) -> tuple[dict[str, Tensor], int]:
    """Return each tensor's place and the size of the whole space.

    Raises:
        UnsupportedModel: rows that are no whole number of the format's blocks, or so
            long that one of them would not fit into memory.
    """
    tensors: dict[str, Tensor] = {}
    end = 0
    for name, view in views.items():
        n_values, n_bytes = block_size(view.format)
        if view.shape[-1] % n_values:
            reason = f"rows of {view.shape[-1]} values end within a block"
            raise UnsupportedModel(path, reason, tensor=name)
        if view.shape[-1] > MAX_COLUMNS:
            reason = f"rows of {view.shape[-1]} values are longer than {MAX_COLUMNS}"
            raise UnsupportedModel(path, reason, tensor=name)
        offset = -(-end // _ALIGNMENT) * _ALIGNMENT
        size = prod(view.shape) // n_values * n_bytes
        tensors[name] = Tensor(
            name=name,
            format=view.format,
            shape=view.shape,
            offset=offset,
            n_bytes=size,
        )
        end = offset + size
    return tensors, end


class ComputedBytes:
    """A `ByteSource` over views; owns and closes the files behind them."""

    def __init__(
        self,
        path: Path,
        tensors: Mapping[str, Tensor],
        views: Mapping[str, View],
        files: Sequence[OpenFile],
    ) -> None:
        """Take over `files`; `tensors` are the places of `views` (see `lay_out`)."""
        self._path = path
        self._files = tuple(files)
        self._places = [(tensors[name], view.rows) for name, view in views.items()]
        self._starts = [tensor.offset for tensor, _ in self._places]
        last = self._places[-1][0]
        self.n_bytes = last.offset + last.n_bytes

    def read_into(self, offset: int, place: memoryview) -> None:
        """Fill `place` with the bytes at `offset`; see `ByteSource`."""
        if offset < 0 or offset + place.nbytes > self.n_bytes:
            reason = f"no range {offset} + {place.nbytes} in {self.n_bytes} bytes"
            raise ModelFileError(self._path, reason)
        filled = 0
        while filled < place.nbytes:
            at = offset + filled
            number = bisect_right(self._starts, at) - 1
            tensor, rows = self._places[number]
            within = at - tensor.offset
            n_bytes = min(place.nbytes - filled, tensor.n_bytes - within)
            if n_bytes > 0:
                _fill(rows, within, place[filled : filled + n_bytes])
            else:
                following = self._starts[number + 1]
                n_bytes = min(place.nbytes - filled, following - at)
                place[filled : filled + n_bytes] = bytes(n_bytes)
            filled += n_bytes

    def stamp(self) -> bytes:
        """Return a digest of the files' sizes and times of change."""
        return stamp_of(self._files)

    def close(self) -> None:
        """Close all files."""
        for file in self._files:
            file.close()


def _fill(rows: Rows, within: int, place: memoryview) -> None:
    row_bytes = rows.n_items * rows.dtype.itemsize
    first, skipped = divmod(within, row_bytes)
    filled = 0
    if skipped:
        filled = min(row_bytes - skipped, place.nbytes)
        place[:filled] = _row(rows, first)[skipped : skipped + filled]
        first += 1
    n_rows = (place.nbytes - filled) // row_bytes
    if n_rows:
        whole = np.frombuffer(place[filled : filled + n_rows * row_bytes], rows.dtype)
        rows.fill(first, whole.reshape(n_rows, rows.n_items))
        filled += n_rows * row_bytes
    if filled < place.nbytes:
        place[filled:] = _row(rows, first + n_rows)[: place.nbytes - filled]


def _row(rows: Rows, number: int) -> memoryview:
    row = np.empty((1, rows.n_items), rows.dtype)
    rows.fill(number, row)
    return row.reshape(-1).view(np.uint8).data
