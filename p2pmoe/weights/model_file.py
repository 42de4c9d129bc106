"""An open model file: its metadata, its tensors, and positioned reads.

The file is opened once and never mapped: if it is replaced by a rename, reads go on
from the old file; if it is cut short, a read raises ModelFileTruncated and the process
lives on (fault B03). Reads may come from several threads at once.
"""

import os
import stat
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self

from mobile_worker.large_pages import weight_room
from p2pmoe.weights.cursor import Cursor, read_at, read_into
from p2pmoe.weights.errors import ModelFileError, UnsupportedModel
from p2pmoe.weights.gguf import Header, Tensor, parse_header
from p2pmoe.weights.metadata import Metadata

__all__ = ["ModelFile", "open_model"]


class ModelFile:
    """A GGUF file whose header was accepted; close it, or use it as a context.

    `n_bytes` is the file's size when it was opened.
    """

    def __init__(self, path: Path, fd: int, n_bytes: int, header: Header) -> None:
        """Take over the open file `fd`; callers use `open_model`."""
        self.path = path
        self.n_bytes = n_bytes
        self.metadata = Metadata(path, header.metadata)
        self._tensors = header.tensors
        self._fd = fd
        self._close = weakref.finalize(self, os.close, fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; later reads raise ModelFileError."""
        self._close()

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """All tensors by name, in file order; read-only."""
        return MappingProxyType(self._tensors)

    def tensor(self, name: str) -> Tensor:
        """Return where a tensor lies; ModelFileError if the file has none such."""
        try:
            return self._tensors[name]
        except KeyError:
            raise ModelFileError(self.path, "is missing", tensor=name) from None

    def read(self, name: str) -> bytes:
        """Return the bytes of a whole tensor, in the file's own block format.

        Raises:
            ModelFileTruncated: The file was cut short since it was opened.
            ModelFileError: There is no such tensor, or it cannot be read.
        """
        tensor = self.tensor(name)
        return self.read_range(tensor.offset, tensor.n_bytes)

    def read_range(self, offset: int, n_bytes: int) -> bytes:
        """Return `n_bytes` from `offset` of the file; raises as `read`."""
        if not self._close.alive:
            raise ModelFileError(self.path, "is closed")
        if offset < 0 or n_bytes < 0:
            raise ModelFileError(self.path, f"no range {offset} + {n_bytes}")
        return read_at(self.path, self._fd, offset, n_bytes)

    def load(self, name: str) -> memoryview:
        """Return the bytes of a tensor to compute with, in large pages; as `read`."""
        tensor = self.tensor(name)
        return self.load_ranges([(tensor.offset, tensor.n_bytes)])

    def load_ranges(self, ranges: Sequence[tuple[int, int]]) -> memoryview:
        """Return ranges (offset, bytes) one behind the other; as `load` and `read`."""
        if not self._close.alive:
            raise ModelFileError(self.path, "is closed")
        if any(offset < 0 or n_bytes < 0 for offset, n_bytes in ranges):
            raise ModelFileError(self.path, f"no ranges {ranges}")
        room = weight_room(sum(n_bytes for _, n_bytes in ranges))
        at = 0
        for offset, n_bytes in ranges:
            read_into(self.path, self._fd, offset, room[at : at + n_bytes])
            at += n_bytes
        return room.toreadonly()


def open_model(path: Path) -> ModelFile:
    """Open a GGUF file and check its whole header.

    Raises:
        ModelFileTruncated: "needs N bytes, has M": it ends before its tensors do.
        UnsupportedModel: Another version, byte order, or one part of a split model.
        ModelFileError: It cannot be opened, or is no valid GGUF file.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as exc:
        unopened = ModelFileError(path, f"cannot be opened: {exc.strerror}")
        unopened.advice = "name a GGUF file that can be read, or `pocket`"
        raise unopened from exc
    try:
        n_bytes = _size(path, fd)
        header = parse_header(Cursor(path, fd, n_bytes))
        _refuse_parts(path, header)
    except BaseException:
        os.close(fd)
        raise
    return ModelFile(path, fd, n_bytes, header)


def _size(path: Path, fd: int) -> int:
    state = os.fstat(fd)
    if not stat.S_ISREG(state.st_mode):
        raise ModelFileError(path, "is no regular file")
    return state.st_size


def _refuse_parts(path: Path, header: Header) -> None:
    parts = header.metadata.get("split.count", 1)
    if isinstance(parts, int) and parts > 1:
        reason = f"is one of {parts} parts; merge them into one file first"
        raise UnsupportedModel(path, reason, field="key 'split.count'")
