"""Where the bytes of a model lie: one address space, whatever holds it.

A `ByteSource` fills any range of its `n_bytes`, from any thread. `FileBytes` lays open
files end to end (the parts of a split set; one file is a set of one). A safetensors
folder is a source of its own that computes what it is asked for. Files are read by
position and never mapped: one cut short raises ModelFileTruncated for that read alone
(fault B03), one replaced by a rename goes on being read as it was, and one that was
written to in place is refused from then on: bytes of two models are never mixed.

`read_past_cache` has the system keep no copy of what is read. Else it keeps one until
it needs the memory, which on a machine that is short of it costs more than the read.
"""

import hashlib
import os
import stat
import threading
import weakref
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Protocol

from p2pmoe.weights.cursor import read_into
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.find import names_like

__all__ = ["BLOCK", "ByteSource", "FileBytes", "OpenFile", "stamp_of"]

BLOCK = 4096  # bytes; what is read past the cache is whole blocks, in memory as well
_DIRECT = getattr(os, "O_DIRECT", None)
_NAME_A_FILE = "name a model file that can be read, or `pocket`"


class ByteSource(Protocol):
    """The bytes of a model, by position; safe to use from several threads."""

    @property
    def n_bytes(self) -> int:
        """Bytes in all; ranges lie in 0..n_bytes."""
        ...

    def read_into(self, offset: int, place: memoryview) -> None:
        """Fill `place`, which is writable bytes, with what lies at `offset`.

        Raises:
            ModelFileTruncated: A file ends before the range does.
            ModelFileError: It cannot be read, was written to, or the source is closed.
        """
        ...

    def stamp(self) -> bytes:
        """Return bytes that change when a file behind the source is written to."""
        ...

    def close(self) -> None:
        """Give the files free; later reads raise ModelFileError."""
        ...


class OpenFile:
    """A regular file, open for positioned reads; `n_bytes` is its size when opened.

    `path` is for messages; the file is the one opened, whatever the path names later.
    """

    def __init__(self, path: Path) -> None:
        """Open `path`; ModelFileError if it cannot be or is no regular file."""
        self.path = path
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
        try:
            self.fd = os.open(path, flags)
        except OSError as exc:
            reason = f"cannot be opened: {(exc.strerror or str(exc)).lower()}"
            is_absent = isinstance(exc, FileNotFoundError)
            advice = names_like(path) if is_absent else _NAME_A_FILE
            raise ModelFileError(path, reason, advice=advice) from exc
        self._close = weakref.finalize(self, os.close, self.fd)
        state = os.fstat(self.fd)
        if not stat.S_ISREG(state.st_mode):
            self.close()
            raise ModelFileError(path, "is no regular file", advice=_NAME_A_FILE)
        self.n_bytes = state.st_size
        self._written_ns = state.st_mtime_ns
        self._direct_fd: int | None = None
        self._lacks_direct = _DIRECT is None
        self._opening = threading.Lock()

    def read_into(self, offset: int, place: memoryview) -> None:
        """Fill `place` with the bytes at `offset`; raises as a `ByteSource`."""
        if not self._close.alive:
            raise ModelFileError(self.path, "is closed")
        read_into(self.path, self.fd, offset, place)
        self._check_unchanged()

    def read_past_cache(
        self, offset: int, n_bytes: int, room: memoryview
    ) -> memoryview | None:
        """Return `n_bytes` at `offset` within `room`; None: the system cannot.

        `room` begins at a block in memory and has two blocks more than `n_bytes`.
        Raises as a `ByteSource`.
        """
        fd = self._direct()
        if fd is None:
            return None
        before = offset % BLOCK
        wanted = -(-(before + n_bytes) // BLOCK) * BLOCK
        try:
            got = os.preadv(fd, [room[:wanted]], offset - before)
        except OSError:  # not this way
            self._lacks_direct = True
            return None
        if got < before + n_bytes:  # the file's end, or a read that was cut off
            return None
        self._check_unchanged()
        return room[before : before + n_bytes]

    def _direct(self) -> int | None:
        """Return a descriptor of the same file that bypasses the cache, if there is."""
        if not self._close.alive:
            raise ModelFileError(self.path, "is closed")
        if self._direct_fd is None and not self._lacks_direct:
            with self._opening:
                if self._direct_fd is None:
                    self._open_direct()
        return None if self._lacks_direct else self._direct_fd

    def _open_direct(self) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC | (_DIRECT or 0)
        try:
            fd = os.open(f"/proc/self/fd/{self.fd}", flags)
        except OSError:
            self._lacks_direct = True
            return
        weakref.finalize(self, os.close, fd)
        self._direct_fd = fd

    def _check_unchanged(self) -> None:
        if os.fstat(self.fd).st_mtime_ns != self._written_ns:
            reason = "was written to since it was opened"
            advice = "start again; replace models by renaming, not in place"
            raise ModelFileError(self.path, reason, advice=advice)

    def stamp(self) -> bytes:
        """Return the file's size and time of change; ModelFileError."""
        if not self._close.alive:
            raise ModelFileError(self.path, "is closed")
        state = os.fstat(self.fd)
        return f"{state.st_size} {state.st_mtime_ns}\n".encode()

    def close(self) -> None:
        """Close the file; a second time does nothing."""
        self._close()


def stamp_of(files: Iterable[OpenFile]) -> bytes:
    """Return 32 bytes that change when one of the files is written to."""
    return hashlib.sha256(b"".join(file.stamp() for file in files)).digest()


class FileBytes:
    """Open files laid end to end, without a gap; owns and closes them."""

    def __init__(self, files: Sequence[OpenFile]) -> None:
        """Take over `files`, one or more, in their order."""
        self.files = tuple(files)
        self._starts = (0, *accumulate(file.n_bytes for file in files))

    @property
    def n_bytes(self) -> int:
        """Bytes of all files together."""
        return self._starts[-1]

    def starts(self) -> tuple[int, ...]:
        """Return where each file begins."""
        return self._starts[:-1]

    def read_into(self, offset: int, place: memoryview) -> None:
        """Fill `place` with the bytes at `offset`; see `ByteSource`."""
        filled = 0
        while filled < place.nbytes:
            at = offset + filled
            number = min(bisect_right(self._starts, at), len(self.files)) - 1
            within = at - self._starts[number]
            file = self.files[number]
            n_bytes = place.nbytes - filled
            if number < len(self.files) - 1:
                n_bytes = min(n_bytes, file.n_bytes - within)
            file.read_into(within, place[filled : filled + n_bytes])
            filled += n_bytes

    def read_past_cache(
        self, offset: int, n_bytes: int, room: memoryview
    ) -> memoryview | None:
        """Return a range of one file; see `OpenFile.read_past_cache`."""
        number = min(bisect_right(self._starts, offset), len(self.files)) - 1
        within = offset - self._starts[number]
        if within + n_bytes > self.files[number].n_bytes:
            return None
        return self.files[number].read_past_cache(within, n_bytes, room)

    def stamp(self) -> bytes:
        """Return a digest of the files' sizes and times of change."""
        return stamp_of(self.files)

    def close(self) -> None:
        """Close all files."""
        for file in self.files:
            file.close()
