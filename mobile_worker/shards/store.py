"""A content-addressed folder of shards within a budget of bytes.

Rules:
- A shard is a file `DIGEST.shard`, DIGEST its SHA-256 as 64 lower-case hex digits.
  Every name is checked before it becomes a path (faults B06); links are not followed.
- Bytes arrive in order into `DIGEST.part` in the same folder, are hashed while they
  are written, synced, and only then renamed. A part left behind is resumed.
- A whole read checks size and hash, by positioned reads (faults B03); a file that is
  wrong is removed, so that the next look finds it missing and it is fetched again.
- The budget covers shards, parts and what open parts will still need. Room is made by
  removing parts, then the shards that were read or kept longest ago, never one that is
  kept now (leased); the files' times say so after a restart, too.
- An operating system error becomes one StoreFull or StoreUnusable.

Nothing here awaits. Large reads and the last sync take milliseconds: call `read`,
`begin` and `finish` from worker threads; a lock keeps the books between them. One part
is written by one task.
"""

import hashlib
import os
import re
import stat
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ledger.folders import sync_folder
from mobile_worker.shards.errors import (
    BadDigest,
    ShardCorrupt,
    ShardError,
    ShardMissing,
    StoreFull,
)
from mobile_worker.shards.files import as_store_error, read_at, write_at

__all__ = ["Incoming", "ShardStore", "check_digest"]

_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
_READ_BYTES = 1 << 20


def check_digest(digest: object) -> str:
    """Return the digest, or raise BadDigest if it is not 64 lower-case hex digits."""
    if not isinstance(digest, str) or _DIGEST.fullmatch(digest) is None:
        shown = repr(digest)[:80]
        raise BadDigest(f"{shown} is not a SHA-256 in 64 lower-case hex digits")
    return digest


class ShardStore:
    """The shards of one folder; see the module for the rules."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        """Open or make the folder and list what it holds.

        Raises:
            StoreUnusable: the folder cannot be made, listed or written.
        """
        self._folder = folder
        self._max_bytes = max_bytes
        self._kept: frozenset[str] = frozenset()
        self._books = threading.RLock()
        self._open: dict[str, Incoming] = {}
        self._verified: set[str] = set()
        self._sizes: dict[str, int] = {}  # least recently used first
        self._parts: dict[str, int] = {}  # partial files that nobody is writing
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._scan()
            probe = folder / ".writable"
            probe.touch()
            probe.unlink(missing_ok=True)  # another process of ours may look, too
        except OSError as error:
            raise as_store_error(error, folder) from error

    @property
    def folder(self) -> Path:
        """The folder that holds the shards."""
        return self._folder

    @property
    def used_bytes(self) -> int:
        """Bytes of shards and parts, with what the open parts still need."""
        with self._books:
            promised = sum(part.n_bytes for part in self._open.values())
            return sum(self._sizes.values()) + sum(self._parts.values()) + promised

    def keep(self, digests: Iterable[str]) -> None:
        """Name the whole set of shards that must not be evicted: the leased ones.

        What was kept until now was used until now.
        """
        kept = frozenset(check_digest(digest) for digest in digests)
        with self._books:
            let_go = sorted(self._kept - kept)
            self._kept = kept
            for digest in let_go:
                self._used(digest)

    def has(self, digest: str) -> bool:
        """Return whether a complete file is here; its hash is checked when read."""
        return check_digest(digest) in self._sizes

    def look(self, digest: str) -> bool:
        """Return `has`, after looking for a file that another program has put there."""
        if self.has(digest):
            return True
        path = self._folder / f"{digest}.shard"
        try:
            status = path.lstat()
        except OSError:
            return False
        if not stat.S_ISREG(status.st_mode):
            return False
        with self._books:
            if digest not in self._open:
                self._sizes.setdefault(digest, status.st_size)
        return self.has(digest)

    def missing(self, digests: Iterable[str]) -> list[str]:
        """Return those of `digests` that the store does not hold, in order."""
        return [digest for digest in digests if not self.has(digest)]

    def read(self, digest: str) -> bytes:
        """Return a whole shard, its size and hash checked.

        Raises:
            ShardMissing: it is not here.
            ShardCorrupt: the file was wrong; it has been removed.
        """
        size = self._size_of(digest)
        body = self._positioned(digest, 0, size)
        actual = hashlib.sha256(body).hexdigest()
        if actual != digest:
            self.discard(digest)
            raise ShardCorrupt(f"shard {digest[:8]} holds other bytes ({actual[:8]})")
        self._proved(digest)
        return body

    def check(self, digest: str) -> int:
        """Return a shard's size after checking its hash, once in this process.

        Raises:
            ShardMissing: it is not here.
            ShardCorrupt: the file was wrong; it has been removed.
        """
        size = self._size_of(digest)
        if digest in self._verified:
            return size
        actual = hashlib.sha256()
        for offset in range(0, size, _READ_BYTES):
            length = min(_READ_BYTES, size - offset)
            actual.update(self._positioned(digest, offset, length))
        if actual.hexdigest() != digest:
            self.discard(digest)
            raise ShardCorrupt(f"shard {digest[:8]} holds other bytes")
        self._proved(digest)
        return size

    def read_range(self, digest: str, offset: int, length: int) -> tuple[int, bytes]:
        """Return (total size, bytes of a range cut at the end), for another peer.

        The whole file is verified at its first use in this process.

        Raises:
            ShardMissing: it is not here.
            ShardCorrupt: the file was wrong; it has been removed.
        """
        size = self.check(digest)
        length = min(length, size - offset)
        if offset < 0 or length <= 0:
            return size, b""
        return size, self._positioned(digest, offset, length)

    def begin(self, digest: str, n_bytes: int) -> "Incoming":
        """Make room and open a part of `n_bytes` in all, after what is already here.

        Raises:
            StoreFull: no room within the budget even without the unkept shards.
            ShardError: the shard is already here, or already being written.
        """
        check_digest(digest)
        with self._books:
            if digest in self._open or digest in self._sizes:
                raise ShardError(f"shard {digest[:8]} is already here or on its way")
            self._parts.pop(digest, None)
            self._make_room(n_bytes, digest)
            path = self._folder / f"{digest}.part"
            try:
                part = Incoming(self, path, digest, n_bytes)
            except OSError as error:
                raise as_store_error(error, self._folder) from error
            self._open[digest] = part
            return part

    def discard(self, digest: str) -> None:
        """Remove a shard if it is here."""
        check_digest(digest)
        with self._books:
            self._verified.discard(digest)
            known = self._sizes.pop(digest, None)
        if known is not None:
            (self._folder / f"{digest}.shard").unlink(missing_ok=True)

    def clear(self) -> tuple[int, int]:
        """Remove all that is neither kept nor being written; return (files, bytes)."""
        with self._books:
            parts = {d: n for d, n in self._parts.items() if d not in self._kept}
            shards = {d: n for d, n in self._sizes.items() if d not in self._kept}
            for digest in parts:
                self._drop_part(digest)
            for digest in shards:
                self.discard(digest)
        return len(parts) + len(shards), sum(parts.values()) + sum(shards.values())

    def closed(self, part: "Incoming", n_stored: int, *, complete: bool) -> None:
        """Take back an open part; called by the part itself."""
        with self._books:
            del self._open[part.digest]
            if complete:
                self._sizes[part.digest] = n_stored
                self._verified.add(part.digest)
            elif n_stored:
                self._parts[part.digest] = n_stored

    def _scan(self) -> None:
        found = []
        for entry in os.scandir(self._folder):
            stem, _, suffix = entry.name.rpartition(".")
            if suffix not in {"shard", "part"} or not _DIGEST.fullmatch(stem):
                continue
            if not entry.is_file(follow_symlinks=False):
                continue
            status = entry.stat(follow_symlinks=False)
            found.append((status.st_mtime_ns, stem, suffix, status.st_size))
        for _, digest, suffix, size in sorted(found):
            (self._sizes if suffix == "shard" else self._parts)[digest] = size

    def _proved(self, digest: str) -> None:
        with self._books:
            if digest in self._sizes:
                self._verified.add(digest)
                self._used(digest)

    def _used(self, digest: str) -> None:
        """Make a shard the most recently used one, in the file's time as well."""
        if digest in self._sizes:
            self._sizes[digest] = self._sizes.pop(digest)
            with suppress(OSError):  # a hint for the next start, no more
                os.utime(self._folder / f"{digest}.shard")

    def _size_of(self, digest: str) -> int:
        size = self._sizes.get(check_digest(digest))
        if size is None:
            raise ShardMissing(f"shard {digest[:8]} is not in the store")
        return size

    def _positioned(self, digest: str, offset: int, length: int) -> bytes:
        path = self._folder / f"{digest}.shard"
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
            try:
                body = read_at(descriptor, offset, length)
            finally:
                os.close(descriptor)
        except FileNotFoundError as error:
            self.discard(digest)
            raise ShardMissing(f"shard {digest[:8]} is gone from disk") from error
        except OSError as error:
            raise as_store_error(error, self._folder) from error
        if len(body) != length:
            self.discard(digest)
            held = offset + len(body)
            wanted = offset + length
            raise ShardCorrupt(f"shard {digest[:8]} needs {wanted} bytes, has {held}")
        return body

    def _make_room(self, n_bytes: int, incoming: str) -> None:
        promised = sum(part.n_bytes for part in self._open.values())
        kept = sum(n for d, n in self._sizes.items() if d in self._kept)
        if promised + kept + n_bytes > self._max_bytes:
            raise StoreFull(
                f"shard {incoming[:8]} of {n_bytes} bytes does not fit: "
                f"{promised + kept} of {self._max_bytes} bytes are needed already"
            )
        # Parts that nobody wants any more, then shards, then parts to be resumed.
        stale = [d for d in self._parts if d not in self._kept]
        shards = [d for d in self._sizes if d not in self._kept]
        resumable = [d for d in self._parts if d in self._kept]
        for digest in (*stale, *shards, *resumable):
            if self.used_bytes + n_bytes <= self._max_bytes:
                return
            if digest in self._parts:
                self._drop_part(digest)
            else:
                self.discard(digest)

    def _drop_part(self, digest: str) -> None:
        del self._parts[digest]
        (self._folder / f"{digest}.part").unlink(missing_ok=True)


class Incoming:
    """A shard that is being written, byte after byte; made by `ShardStore.begin`."""

    def __init__(
        self, store: ShardStore, path: Path, digest: str, n_bytes: int
    ) -> None:
        """Open the part file and hash what an earlier try left in it."""
        self.digest = digest
        self.n_bytes = n_bytes
        self._store = store
        self._path = path
        self._hash = hashlib.sha256()
        self._position = 0
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        self._descriptor = os.open(path, flags, 0o600)
        try:
            self._resume()
        except BaseException:
            os.close(self._descriptor)
            raise

    @property
    def position(self) -> int:
        """Bytes already here: where the next piece must start."""
        return self._position

    def append(self, piece: bytes) -> None:
        """Write and hash the next piece.

        Raises:
            ShardCorrupt: the piece goes beyond the shard's end.
            StoreFull: the disk is full; the part so far stays.
        """
        if self._position + len(piece) > self.n_bytes:
            raise ShardCorrupt(f"shard {self.digest[:8]} is longer than {self.n_bytes}")
        try:
            write_at(self._descriptor, self._position, piece)
        except OSError as error:
            raise as_store_error(error, self._store.folder) from error
        self._hash.update(piece)
        self._position += len(piece)

    def finish(self) -> None:
        """Check length and hash, sync, and take the shard into the store.

        Raises:
            ShardCorrupt: the bytes are not the shard's; the part is removed.
        """
        actual = self._hash.hexdigest()
        if self._position != self.n_bytes or actual != self.digest:
            size = self._position
            self._drop()
            raise ShardCorrupt(
                f"shard {self.digest[:8]} of {self.n_bytes} bytes came as "
                f"{size} bytes with hash {actual[:8]}"
            )
        try:
            os.fsync(self._descriptor)
            self._path.rename(self._path.with_suffix(".shard"))
            sync_folder(self._store.folder)
        except OSError as error:
            self.abandon()
            raise as_store_error(error, self._store.folder) from error
        self._close(complete=True)

    def abandon(self) -> None:
        """Stop writing; what has come stays, to be resumed. Idempotent."""
        if self._descriptor >= 0:
            self._close(complete=False)

    def _drop(self) -> None:
        self._path.unlink(missing_ok=True)
        self._position = 0
        self._close(complete=False)

    def _close(self, *, complete: bool) -> None:
        os.close(self._descriptor)
        self._descriptor = -1
        self._store.closed(self, self._position, complete=complete)

    def _resume(self) -> None:
        size = os.fstat(self._descriptor).st_size
        if size > self.n_bytes:
            os.ftruncate(self._descriptor, 0)
            return
        while self._position < size:
            wanted = min(_READ_BYTES, size - self._position)
            piece = read_at(self._descriptor, self._position, wanted)
            self._hash.update(piece)
            self._position += len(piece)
            if len(piece) < wanted:
                break
