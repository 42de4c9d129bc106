"""Reading a file's header front to back, by positioned reads and never past its end.

Every length is compared with what the file still has before a byte is read or
allocated for it. `needs N bytes, has M` means the file is shorter than it says; any
other refusal means that a number is out of its bound. Buffers one block at a time.
"""

import hashlib
import os
import struct
from pathlib import Path

from p2pmoe.weights.errors import ModelFileError, ModelFileTruncated

__all__ = ["Cursor", "read_at", "read_into"]

_BLOCK_BYTES = 1 << 18
_U64 = struct.Struct("<Q")


def read_at(path: Path, fd: int, offset: int, n_bytes: int) -> bytes:
    """Return `n_bytes` at `offset`; `path` is for the message only.

    Raises:
        ModelFileTruncated: The file is shorter, perhaps only since it was opened.
        ModelFileError: The operating system cannot read it.
    """
    place = bytearray(n_bytes)
    read_into(path, fd, offset, memoryview(place))
    return bytes(place)


def read_into(path: Path, fd: int, offset: int, place: memoryview) -> None:
    """Fill `place` with the bytes at `offset`; path and errors as for `read_at`."""
    at, filled = offset, 0
    while filled < place.nbytes:
        try:
            n_bytes = os.preadv(fd, [place[filled:]], at)
        except OSError as exc:
            reason = (
                f"cannot read {place.nbytes - filled} bytes at {at}: {exc.strerror}"
            )
            raise ModelFileError(path, reason) from exc
        if not n_bytes:
            held = min(at, os.fstat(fd).st_size)
            needed = offset + place.nbytes
            raise ModelFileTruncated(path, f"needs {needed} bytes, has {held}")
        filled += n_bytes
        at += n_bytes


class Cursor:
    """A position in a file of `size` bytes; all numbers are little-endian."""

    def __init__(
        self, path: Path, fd: int, size: int, *, start: int = 0, held: int | None = None
    ) -> None:
        """Start at the front of the open file `fd`.

        Of a file that is here in part, `held` bytes from its front lie in `fd` at
        `start`; what is behind them is refused.
        """
        self.path = path
        self.position = 0
        self._fd = fd
        self._size = size
        self._start = start
        self._held = size if held is None else held
        self._block = b""
        self._block_at = 0

    @property
    def remaining(self) -> int:
        """Bytes from the position to the end of the file."""
        return self._size - self.position

    def digest_before(self, n_bytes: int) -> bytes:
        """Return SHA-256 of `n_bytes`, u64, and of all before the position."""
        digest = hashlib.sha256(n_bytes.to_bytes(8, "little"))
        for start in range(0, self.position, _BLOCK_BYTES):
            length = min(_BLOCK_BYTES, self.position - start)
            place = self._start + start
            digest.update(read_at(self.path, self._fd, place, length))
        return digest.digest()

    def take(self, n_bytes: int, field: str) -> bytes:
        """Return the next bytes; ModelFileTruncated if there are not that many."""
        if n_bytes > self.remaining:
            needed = self.position + n_bytes
            reason = f"needs {needed} bytes, has {self._size}"
            raise ModelFileTruncated(self.path, reason, field=field)
        start = self.position - self._block_at
        if start + n_bytes > len(self._block):
            here = self._held - self.position
            if n_bytes > here:
                reason = "its header is not all on this machine"
                raise ModelFileError(self.path, reason, field=field)
            wanted = min(max(n_bytes, _BLOCK_BYTES), self.remaining, here)
            place = self._start + self.position
            self._block = read_at(self.path, self._fd, place, wanted)
            self._block_at = self.position
            start = 0
        self.position += n_bytes
        return self._block[start : start + n_bytes]

    def number(self, form: str, field: str) -> int:
        """Return one integer in the `struct` form B, H, I, Q or its signed twin."""
        value: int = struct.unpack("<" + form, self.take(struct.calcsize(form), field))[
            0
        ]
        return value

    def bounded(self, form: str, field: str, low: int, high: int) -> int:
        """Return one integer; ModelFileError if it is not in low..high."""
        value = self.number(form, field)
        if not low <= value <= high:
            reason = f"{value} is not in {low}..{high}"
            raise ModelFileError(self.path, reason, field=field)
        return value

    def text(self, field: str, max_bytes: int) -> str:
        """Return a string: u64 length, then UTF-8 of at most `max_bytes` bytes."""
        length = self.bounded("Q", f"length of {field}", 0, max_bytes)
        raw = self.take(length, field)
        try:
            return raw.decode()
        except UnicodeDecodeError as exc:
            raise ModelFileError(self.path, "is not UTF-8", field=field) from exc

    def texts(self, count: int, field: str, max_bytes: int) -> tuple[str, ...]:
        """Return `count` strings, as `text` does; vocabularies have many."""
        found: list[str] = []
        while len(found) < count:
            self._texts_of_block(found, count, max_bytes)
            if len(found) < count:  # across the block's end, or bad
                found.append(self.text(field, max_bytes))
        return tuple(found)

    def _texts_of_block(self, found: list[str], count: int, max_bytes: int) -> None:
        """Append the good strings that lie wholly in what is buffered."""
        block, at = self._block, self.position - self._block_at
        length_at, head = _U64.unpack_from, _U64.size
        last = len(block) - head
        try:
            while len(found) < count and at <= last:
                (length,) = length_at(block, at)
                end = at + head + length
                if length > max_bytes or end > len(block):
                    break
                found.append(block[at + head : end].decode())
                at = end
        except UnicodeDecodeError:
            pass  # the one at the position, which `text` refuses
        self.position = self._block_at + at
