"""An open model: its header, and positioned reads of its tensors.

`open_model` wants all bytes to be there, `read_header` only the header's. Files are
opened once and never mapped: if one is replaced by a rename, reads go on from the old
file; if it is cut short, a read raises ModelFileTruncated and the process lives on
(fault B03). Reads may come from several threads at once.
"""

import copy
import threading
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from mobile_worker.large_pages import weight_room
from p2pmoe.weights.byte_source import BLOCK, ByteSource, FileBytes
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.find import SafetensorsFolder, find_model
from p2pmoe.weights.gguf import Header, Tensor
from p2pmoe.weights.gguf_set import open_gguf, read_gguf
from p2pmoe.weights.model_header import ModelHeader

_WORTH_IT = 1 << 18  # bytes

__all__ = ["ModelFile", "Promise", "open_model", "read_header"]


class Promise(Protocol):
    """A tensor that will be read at its first use."""

    @property
    def tensor(self) -> Tensor:
        """Where it lies."""
        ...

    @property
    def is_read(self) -> bool:
        """Whether it is in memory."""
        ...

    def read(self) -> object:
        """Have it in memory, checked; ModelFileError."""
        ...


class _Shared:
    """A source, how many may still read it, and what will be read from it."""

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.promises: weakref.WeakSet[Promise] = weakref.WeakSet()
        self._n_users = 1
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            self._n_users += 1

    def leave(self) -> None:
        with self._lock:
            self._n_users -= 1
            is_last = not self._n_users
        if is_last:
            self.source.close()


class ModelFile(ModelHeader):
    """A model whose header was accepted; close it, or use it as a context.

    `n_bytes` is the size of its address space when it was opened. What is read later
    than its opener may be there holds a `share` of it.
    """

    def __init__(
        self,
        path: Path,
        source: ByteSource,
        header: Header,
        *,
        folder: Path | None = None,
    ) -> None:
        """Take over `source`, in which the tensors of `header` lie."""
        super().__init__(path, header, n_bytes=source.n_bytes, folder=folder)
        self._shared: _Shared | None = _Shared(source)
        self.past_cache = False  # whether the system is to keep no copy of what is read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End reading here: later reads raise ModelFileError.

        The files are closed with the last share; one that is forgotten ends with its
        owner.
        """
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.leave()

    def share(self) -> Self:
        """Return the same model, to be read however long this one is open."""
        own = copy.copy(self)
        self._users().enter()
        return own

    def promise(self, promise: Promise) -> None:
        """Note what will be read later; it is held weakly."""
        self._users().promises.add(promise)

    def unread(self) -> list[Promise]:
        """Return what was promised and is not yet read, in file order."""
        promises = [p for p in self._users().promises if not p.is_read]
        return sorted(promises, key=lambda promise: promise.tensor.offset)

    def descriptors(self) -> tuple[int, ...]:
        """Return the open files that are the model, end to end; none if it is no such.

        They stay open for as long as this, or a share of it, does.
        """
        source = self._users().source
        if not isinstance(source, FileBytes):
            return ()
        return tuple(file.fd for file in source.files)

    def stamp(self) -> bytes:
        """Return bytes that change when a file of the model is written to."""
        return self._users().source.stamp()

    def read(self, name: str) -> bytes:
        """Return the bytes of a whole tensor, in its own block format.

        Raises:
            ModelFileTruncated: The file was cut short since it was opened.
            ModelFileError: There is no such tensor, or it cannot be read.
        """
        tensor = self.tensor(name)
        return self.read_range(tensor.offset, tensor.n_bytes)

    def read_range(self, offset: int, n_bytes: int) -> bytes:
        """Return `n_bytes` from `offset`; raises as `read`."""
        if offset < 0 or n_bytes < 0:
            raise ModelFileError(self.path, f"no range {offset} + {n_bytes}")
        source = self._users().source
        place = bytearray(n_bytes)
        source.read_into(offset, memoryview(place))
        return bytes(place)

    def read_into(self, offset: int, place: memoryview) -> None:
        """Fill writable `place` with what lies at `offset`; raises as `read`."""
        self._users().source.read_into(offset, place)

    def load(self, name: str) -> memoryview:
        """Return the bytes of a tensor to compute with, in large pages; as `read`."""
        tensor = self.tensor(name)
        return self.load_ranges([(tensor.offset, tensor.n_bytes)])

    def load_ranges(self, ranges: Sequence[tuple[int, int]]) -> memoryview:
        """Return ranges (offset, bytes) one behind the other; as `load` and `read`."""
        if any(offset < 0 or n_bytes < 0 for offset, n_bytes in ranges):
            raise ModelFileError(self.path, f"no ranges {ranges}")
        if len(ranges) == 1 and (parts := self.load_parts(ranges)):
            return parts[0]
        source = self._users().source
        room = weight_room(sum(n_bytes for _, n_bytes in ranges))
        at = 0
        for offset, n_bytes in ranges:
            source.read_into(offset, room[at : at + n_bytes])
            at += n_bytes
        return room.toreadonly()

    def load_parts(self, ranges: Sequence[tuple[int, int]]) -> list[memoryview] | None:
        """Return ranges (offset, bytes), read past the system's cache; as `load`.

        None where that is not wanted (`past_cache`) or not to be had, and for what is
        too little to be worth it: `load_ranges` does it then.
        """
        if not self.past_cache:
            return None
        source = self._users().source
        rooms = [-(-n_bytes // BLOCK) * BLOCK + BLOCK for _, n_bytes in ranges]
        if not isinstance(source, FileBytes) or sum(rooms) < _WORTH_IT:
            return None
        room = weight_room(sum(rooms))
        if np.frombuffer(room, np.uint8).ctypes.data % BLOCK:
            return None
        parts: list[memoryview] = []
        at = 0
        for (offset, n_bytes), size in zip(ranges, rooms, strict=True):
            part = source.read_past_cache(offset, n_bytes, room[at : at + size])
            if part is None:
                return None
            parts.append(part.toreadonly())
            at += size
        return parts

    def _users(self) -> _Shared:
        if self._shared is None:
            raise ModelFileError(self.path, "is closed")
        return self._shared


def open_model(path: Path) -> ModelFile:
    """Open a model and check its whole header; what paths mean is in find.py.

    Raises:
        ModelFileTruncated: "needs N bytes, has M": it ends before its tensors do.
        UnsupportedModel: Another version, byte order or format, or no language model.
        ModelFileError: It cannot be opened, is no valid model, or parts are missing.
    """
    found = find_model(path)
    if isinstance(found, SafetensorsFolder):
        from p2pmoe.weights.huggingface.model_folder import (  # noqa: PLC0415 - rarely used
            open_folder,
        )

        source, header = open_folder(found.folder)
        return ModelFile(found.folder, source, header, folder=found.folder)
    model = open_gguf(found.path)
    return ModelFile(model.path, model.source, model.header)


def read_header(path: Path) -> ModelHeader:
    """Read a model's header, whose tensor data need not be there; as `open_model`."""
    found = find_model(path)
    if isinstance(found, SafetensorsFolder):
        from p2pmoe.weights.huggingface.model_folder import (  # noqa: PLC0415 - rarely used
            read_folder,
        )

        header, n_bytes = read_folder(found.folder)
        return ModelHeader(found.folder, header, n_bytes=n_bytes, folder=found.folder)
    first, header, n_bytes = read_gguf(found.path)
    return ModelHeader(first, header, n_bytes=n_bytes)
