"""Leaf files: every accepted leaf, append-only, named by number, read by position.

Contract: `NNNNNNNN.leaves` hold packed leaves one after the other, in the order filed;
the database says which bytes belong to which filing and how long each file is. Bytes
are synced before the database commits; whatever lies beyond the committed length was
never acknowledged and is cut off at opening. One file serves all tabs, so a group of
filings costs one sync; a file is closed at 64 MiB, so that old ones can be pruned.

A closed file may be packed (`NNNNNNNN.packed`, compressed; layout in
`ledger.leaf_packs`) or, when its time is over, pruned: then `NNNNNNNN.pruned` stands in
its place, one line with the SHA-256 of the plain bytes in hex. Where two forms of a
number lie side by side, as after a crash, the plainer one counts.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ledger.errors import DifferenceFound, LeavesPruned, StoreUnavailable
from ledger.folders import sync_folder
from ledger.leaf_packs import packed_length, read_packed

__all__ = [
    "LeafFiles",
    "LeafPlace",
    "leaf_path",
    "mark_pruned",
    "packed_path",
    "pruned_path",
    "read_leaves",
]

_FILE_BYTES = 64 << 20
_WRITE_BYTES = 1 << 20  # a write costs as much as a voucher's other work
_NAME = re.compile(r"([0-9]{8,12})\.(leaves|packed|pruned)(\.tmp)?")


@dataclass(frozen=True, slots=True)
class LeafPlace:
    """Where a block of leaves begins."""

    file: int
    offset: int


class LeafFiles:
    """The writing side; one process at a time."""

    def __init__(self, folder: Path, committed: Mapping[int, int]) -> None:
        """Open the folder and cut off what was never committed.

        Args:
            folder: where the files lie; made if missing.
            committed: file number -> committed length in bytes.

        Raises:
            StoreUnavailable: the folder cannot be used.
            DifferenceFound: a file is shorter than what was committed.
        """
        self._folder = folder
        self._handle = -1
        self._unwritten: list[bytes] = []
        self._n_unwritten = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._recover(committed)
            self.file = max(committed, default=1)
            self._size = self._committed = committed.get(self.file, 0)
            self._open()
        except OSError as exc:
            raise StoreUnavailable(f"leaf files {folder}: {exc.strerror}") from exc

    @property
    def length_bytes(self) -> int:
        """Bytes appended to the current file so far."""
        return self._size

    def append(self, block: bytes) -> LeafPlace:
        """Take a block and return its place; durable only after `sync`.

        Raises:
            OSError: the disk refused; close and open again, which cuts the rest off.
        """
        place = LeafPlace(self.file, self._size)
        self._unwritten.append(block)
        self._size += len(block)
        self._n_unwritten += len(block)
        if self._n_unwritten >= _WRITE_BYTES:
            self.write()
        return place

    def write(self) -> None:
        """Write what was appended, in one go, so that it can be read.

        Raises:
            OSError: as for `append`.
        """
        view = memoryview(b"".join(self._unwritten))
        self._unwritten, self._n_unwritten = [], 0
        while view:
            view = view[os.write(self._handle, view) :]

    def sync(self) -> None:
        """Put everything appended on the disk.

        Raises:
            OSError: the disk refused.
        """
        self.write()
        if self._size != self._committed:
            os.fsync(self._handle)

    def commit(self) -> None:
        """Take what was appended as committed; begin a new file when this is full.

        Raises:
            OSError: a new file cannot be made; what was committed stays committed.
        """
        self._committed = self._size
        if self._size >= _FILE_BYTES:
            os.close(self._handle)
            self._handle = -1
            self.file, self._size, self._committed = self.file + 1, 0, 0
            self._open()

    def close(self) -> None:
        """Close the current file; what was not synced is dropped."""
        if self._handle >= 0:
            os.close(self._handle)
        self._handle = -1

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        path = leaf_path(self._folder, self.file)
        is_new = not path.exists()
        self._handle = os.open(path, flags, 0o600)
        if is_new:
            sync_folder(self._folder)

    def _recover(self, committed: Mapping[int, int]) -> None:
        for number, length in committed.items():
            path = leaf_path(self._folder, number)
            size = _plain_length(self._folder, number)
            if size is None:
                continue
            if size < length or (size > length and not path.exists()):
                raise DifferenceFound(f"{path} has {size} bytes, needs {length}")
            if size > length:
                os.truncate(path, length)
        for path in self._folder.iterdir():
            name = _NAME.fullmatch(path.name)
            if name and (name[3] or int(name[1]) not in committed):
                path.unlink()


def read_leaves(folder: Path, place: LeafPlace, n_bytes: int) -> bytes:
    """Return `n_bytes` of leaves at a place, from a plain or a packed file.

    Raises:
        LeavesPruned: the file was pruned, its time being over.
        DifferenceFound: the file is missing, damaged, or ends before.
    """
    if n_bytes == 0:
        return b""
    path = leaf_path(folder, place.file)
    try:
        with path.open("rb") as file:
            file.seek(place.offset)
            block = file.read(n_bytes)
    except FileNotFoundError as exc:
        return _read_replacement(folder, place, n_bytes, exc)
    except OSError as exc:
        raise DifferenceFound(f"leaf file {path}: {exc.strerror}") from exc
    if len(block) != n_bytes:
        raise DifferenceFound(
            f"{path} has {place.offset + len(block)} bytes, "
            f"needs {place.offset + n_bytes}"
        )
    return block


def leaf_path(folder: Path, number: int) -> Path:
    """Return where a plain leaf file lies."""
    return folder / f"{number:08d}.leaves"


def packed_path(folder: Path, number: int) -> Path:
    """Return where a packed leaf file lies."""
    return folder / f"{number:08d}.packed"


def pruned_path(folder: Path, number: int) -> Path:
    """Return where the mark of a pruned leaf file lies."""
    return folder / f"{number:08d}.pruned"


def mark_pruned(folder: Path, number: int, digest: bytes) -> None:
    """Put the mark of a pruned file in its place, durably, and remove its leaves.

    Raises:
        OSError: the folder refused; nothing is removed before the mark stands.
    """
    mark = pruned_path(folder, number)
    if not mark.exists():
        partial = mark.with_name(f"{mark.name}.tmp")
        with partial.open("w", encoding="ascii") as file:
            file.write(f"{digest.hex()}\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(mark)
        sync_folder(folder)
    for path in (leaf_path(folder, number), packed_path(folder, number)):
        path.unlink(missing_ok=True)


def _plain_length(folder: Path, number: int) -> int | None:
    """Return how long a file's plain bytes are; None for a pruned one."""
    path, packed = leaf_path(folder, number), packed_path(folder, number)
    if path.exists():
        return path.stat().st_size
    if packed.exists():
        return packed_length(packed)
    return None if pruned_path(folder, number).exists() else 0


def _read_replacement(
    folder: Path, place: LeafPlace, n_bytes: int, missing: OSError
) -> bytes:
    """Read where there is no plain file."""
    try:
        return read_packed(packed_path(folder, place.file), place.offset, n_bytes)
    except FileNotFoundError:
        path = leaf_path(folder, place.file)
        if pruned_path(folder, place.file).exists():
            raise LeavesPruned(f"the leaves of {path} are pruned") from missing
        raise DifferenceFound(f"leaf file {path}: {missing.strerror}") from missing
    except OSError as exc:
        raise DifferenceFound(f"leaf file {place.file}: {exc.strerror}") from exc
