"""A durable append-only spool: what must not be lost between a decision and its filing.

Contract: `append` frames a payload and gives it the next id; nothing is durable before
`sync` returns. Entries stay, across kill -9 and power cuts, until `release`d, and come
back from `entries` in order of their ids. A release need not be durable: an entry that
comes back after a crash is sent again, and the receiver answers "duplicate". The folder
holds at most `max_bytes`; beyond it `append` raises `SpoolFull` and changes nothing.
One process and one thread at a time. Files are `NNNNNNNN.spool`, each record

    length u32 | crc32 u32 | kind u8 | id u64 | durable u32 | payload

with the crc over all that follows it. `durable` is how much of the file was known to be
on the disk when the record was written. A record of kind 255 releases the ids in its
payload (u64 each). At opening, a damaged end that never was durable is cut off; damage
before that is `SpoolCorrupt`, never skipped over.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path
from typing import Self
from zlib import crc32

from ledger.errors import SpoolCorrupt, SpoolFull, StoreUnavailable
from ledger.folders import sync_folder

__all__ = ["MAX_PAYLOAD_BYTES", "Spool", "SpoolEntry"]

MAX_PAYLOAD_BYTES = 4 << 20
_FRAME = struct.Struct(">II")
_HEAD = struct.Struct(">BQI")
_OVERHEAD = _FRAME.size + _HEAD.size
_RELEASE = 255
_SEGMENT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SpoolEntry:
    """One entry that is not released yet."""

    id: int
    kind: int  # 0..254, meaning is the caller's
    payload: bytes


@dataclass(frozen=True, slots=True)
class _Place:
    segment: int
    offset: int  # of the payload
    length: int
    kind: int


class Spool:
    """An append-only spool in a folder of its own."""

    def __init__(self, folder: Path, *, max_bytes: int = 256 << 20) -> None:
        """Open or create the spool and read what is in it.

        Raises:
            StoreUnavailable: the folder cannot be made, read or written.
            SpoolCorrupt: a file is damaged before its end.
        """
        self._folder = folder
        self._max_bytes = max_bytes
        self._live: dict[int, _Place] = {}
        self._sizes: dict[int, int] = {}  # bytes of each segment
        self._tail = -1  # file handle
        self._next_id = 1
        self._durable = 0  # bytes of the tail file known to be on the disk
        self._broken = ""
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._load()
            self._open_tail(max(self._sizes, default=0) or 1)
        except OSError as exc:
            raise StoreUnavailable(f"spool {folder}: {exc.strerror}") from exc

    def __enter__(self) -> Self:
        """Return the spool itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the open file."""
        self.close()

    def __len__(self) -> int:
        """Return how many entries are not released."""
        return len(self._live)

    @property
    def n_bytes(self) -> int:
        """Bytes of all files of the spool."""
        return sum(self._sizes.values())

    def append(self, kind: int, payload: bytes) -> int:
        """Add an entry and return its id; durable only after `sync`.

        Raises:
            ValueError: a kind outside 0..254 or a payload above 4 MiB.
            SpoolFull: the bound is reached.
            StoreUnavailable: the disk refused.
        """
        if not 0 <= kind < _RELEASE or len(payload) > MAX_PAYLOAD_BYTES:
            raise ValueError(f"spool entry of kind {kind}, {len(payload)} bytes")
        needed = _OVERHEAD + len(payload)
        if self.n_bytes + needed > self._max_bytes:
            self._compact()
        if self.n_bytes + needed > self._max_bytes:
            raise SpoolFull(f"spool {self._folder} holds {self.n_bytes} bytes")
        entry_id = self._next_id
        self._write(kind, entry_id, payload)
        self._next_id = entry_id + 1
        return entry_id

    def sync(self) -> None:
        """Return once everything appended so far is on the disk.

        Raises:
            StoreUnavailable: the disk refused; the spool must be opened again.
        """
        self._refuse_broken()
        try:
            os.fsync(self._tail)
        except OSError as exc:
            # What the system dropped after a failed sync cannot be known: stop here.
            self._broken = exc.strerror or "sync failed"
            raise StoreUnavailable(f"spool {self._folder}: {exc.strerror}") from exc
        self._durable = self._sizes[self._segment]

    def entries(self) -> Iterator[SpoolEntry]:
        """Yield the entries that are not released, oldest first.

        Raises:
            SpoolCorrupt: a payload no longer reads back as it was written.
            StoreUnavailable: a file cannot be read.
        """
        for entry_id, place in sorted(self._live.items()):
            if entry_id in self._live:
                yield SpoolEntry(entry_id, place.kind, self._read(entry_id, place))

    def release(self, ids: Iterable[int]) -> None:
        """Drop entries; unknown and already released ids are ignored.

        Raises:
            StoreUnavailable: the disk refused.
        """
        gone = sorted(entry_id for entry_id in set(ids) if entry_id in self._live)
        if not gone:
            return
        for start in range(0, len(gone), 4096):
            part = gone[start : start + 4096]
            self._write(_RELEASE, 0, struct.pack(f">{len(part)}Q", *part))
        for entry_id in gone:
            del self._live[entry_id]
        self._drop_empty()

    def close(self) -> None:
        """Close the file; entries that were not synced may still be lost."""
        if self._tail >= 0:
            os.close(self._tail)
        self._tail = -1
        self._broken = self._broken or "closed"

    # -- files ----------------------------------------------------------------

    def _path(self, segment: int) -> Path:
        return self._folder / f"{segment:08d}.spool"

    def _refuse_broken(self) -> None:
        if self._broken:
            raise StoreUnavailable(f"spool {self._folder}: {self._broken}")

    def _open_tail(self, segment: int) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._tail = os.open(self._path(segment), flags, 0o600)
        self._segment = segment
        self._durable = 0
        if segment not in self._sizes:
            self._sizes[segment] = 0
            sync_folder(self._folder)

    def _write(self, kind: int, entry_id: int, payload: bytes) -> None:
        self._refuse_broken()
        if self._sizes[self._segment] >= _SEGMENT_BYTES:
            self._roll()
        size = self._sizes[self._segment]
        body = _HEAD.pack(kind, entry_id, self._durable) + payload
        record = _FRAME.pack(len(payload), crc32(body)) + body
        try:
            _write_all(self._tail, record)
        except OSError as exc:
            self._undo(size)
            raise StoreUnavailable(f"spool {self._folder}: {exc.strerror}") from exc
        self._sizes[self._segment] = size + len(record)
        if kind != _RELEASE:
            place = _Place(self._segment, size + _OVERHEAD, len(payload), kind)
            self._live[entry_id] = place

    def _undo(self, size: int) -> None:
        """Cut a record that was written in part."""
        try:
            os.ftruncate(self._tail, size)
        except OSError as exc:
            self._broken = exc.strerror or "cannot truncate"

    def _roll(self) -> None:
        self.sync()
        os.close(self._tail)
        try:
            self._open_tail(self._segment + 1)
        except OSError as exc:
            self._broken, self._tail = exc.strerror or "cannot open", -1
            raise StoreUnavailable(f"spool {self._folder}: {exc.strerror}") from exc

    def _read(self, entry_id: int, place: _Place) -> bytes:
        try:
            with self._path(place.segment).open("rb") as file:
                file.seek(place.offset - _OVERHEAD)
                record = file.read(_OVERHEAD + place.length)
        except OSError as exc:
            raise StoreUnavailable(f"spool {self._folder}: {exc.strerror}") from exc
        if _frame_at(record, 0) is None:
            raise SpoolCorrupt(f"{self._path(place.segment)}: entry {entry_id}")
        return record[_OVERHEAD:]

    def _drop_empty(self) -> None:
        used = {place.segment for place in self._live.values()}
        for segment in sorted(self._sizes):
            # Oldest first and no gap: a release record must outlive what it releases.
            if segment in used or segment == self._segment:
                break
            self._path(segment).unlink(missing_ok=True)
            del self._sizes[segment]

    def _compact(self) -> None:
        """Write the oldest file's live entries again at the end, then drop the file."""
        oldest = min(self._sizes)
        live = [(i, p) for i, p in self._live.items() if p.segment == oldest]
        n_live_bytes = sum(_OVERHEAD + place.length for _, place in live)
        if oldest == self._segment or n_live_bytes * 2 > self._sizes[oldest]:
            return
        for entry_id, place in sorted(live):
            self._write(place.kind, entry_id, self._read(entry_id, place))
        self.sync()
        self._drop_empty()

    # -- opening --------------------------------------------------------------

    def _load(self) -> None:
        segments = sorted(int(path.stem) for path in self._folder.glob("*.spool"))
        for segment in segments:
            self._load_segment(segment, is_last=segment == segments[-1])

    def _load_segment(self, segment: int, *, is_last: bool) -> None:
        path = self._path(segment)
        raw = path.read_bytes()
        at = 0
        while at < len(raw):
            length = _frame_at(raw, at)
            if length is None:
                break
            kind, entry_id, _ = _HEAD.unpack_from(raw, at + _FRAME.size)
            offset = at + _OVERHEAD
            self._replay(kind, entry_id, _Place(segment, offset, length, kind), raw)
            at = offset + length
        if at < len(raw):
            if not is_last or _durable_after(raw, at) > at:
                raise SpoolCorrupt(f"{path}: damaged at byte {at} of {len(raw)}")
            os.truncate(path, at)
        self._sizes[segment] = at

    def _replay(self, kind: int, entry_id: int, place: _Place, raw: bytes) -> None:
        if kind == _RELEASE:
            payload = raw[place.offset : place.offset + place.length]
            for (released,) in struct.iter_unpack(">Q", payload):
                self._live.pop(released, None)
        else:
            self._live[entry_id] = place
            self._next_id = max(self._next_id, entry_id + 1)


def _frame_at(raw: bytes, at: int) -> int | None:
    """Return the payload length of the whole, undamaged record at `at`, else None."""
    if len(raw) - at < _OVERHEAD:
        return None
    length, crc = _FRAME.unpack_from(raw, at)
    end = at + _OVERHEAD + length
    if length > MAX_PAYLOAD_BYTES or end > len(raw):
        return None
    return length if crc32(memoryview(raw)[at + _FRAME.size : end]) == crc else None


def _durable_after(raw: bytes, at: int) -> int:
    """Return the most that any good record after the damage at `at` calls durable."""
    durable = 0
    for offset in range(at + 1, len(raw) - _OVERHEAD + 1):
        if _frame_at(raw, offset) is not None:
            _, _, known = _HEAD.unpack_from(raw, offset + _FRAME.size)
            durable = max(durable, known)
    return durable


def _write_all(handle: int, record: bytes) -> None:
    if os.write(handle, record) < len(record):
        raise OSError(ENOSPC, os.strerror(ENOSPC))
