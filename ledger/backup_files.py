"""The files of a backup: what they may be called, the list of them, folder or archive.

Contract: a backup is a ledger's folder at one moment, with the database in SQLite
whatever the ledger uses: `ledger.sqlite3`, `leaves/`, `log/`, `witnesses`, and
`backup.json`, the list of all files with length and SHA-256. As a folder every program
that reads a ledger reads it; as a file (`.tar`) it is the same in an uncompressed
archive, the list last. A reader takes no name but these, nothing but plain files, and
believes no length.
"""

import json
import os
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import IO, Protocol, cast

from ledger.errors import BackupRefused
from ledger.folders import sync_folder
from ledger.log.tiles import is_log_path

__all__ = [
    "DATABASE_NAME",
    "LIST_NAME",
    "BackupList",
    "FileEntry",
    "Sink",
    "extract",
    "is_archive",
    "is_backup_name",
    "open_sink",
]

DATABASE_NAME = "ledger.sqlite3"
LIST_NAME = "backup.json"
_FORMAT, _VERSION = "p2pmoe ledger backup", 1
_LEAF_NAME = re.compile(r"leaves/[0-9]{8,12}\.(leaves|packed|pruned)", re.ASCII)
_CHUNK = 1 << 20
_MAX_LIST_BYTES = 256 << 20
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file's length in bytes and SHA-256 [32]."""

    n_bytes: int
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupList:
    """What is in a backup, and of which moment."""

    schema: int
    taken_us: int
    files: dict[str, FileEntry]

    def pack(self) -> bytes:
        """Return the JSON document."""
        document = {
            "format": _FORMAT,
            "version": _VERSION,
            "schema": self.schema,
            "taken_us": self.taken_us,
            "files": {
                name: {"bytes": entry.n_bytes, "sha256": entry.digest.hex()}
                for name, entry in sorted(self.files.items())
            },
        }
        return json.dumps(document, indent=1).encode("ascii") + b"\n"

    @staticmethod
    def parse(raw: bytes) -> "BackupList":
        """Read the document back.

        Raises:
            BackupRefused: it is none, of another version, or names strange files.
        """
        try:
            document = json.loads(raw)
            kind = document["format"], document["version"]
            files = {
                name: _entry(given["bytes"], given["sha256"])
                for name, given in document["files"].items()
            }
            numbers = document["schema"], document["taken_us"]
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            RecursionError,  # lists in lists in lists
        ) as exc:
            raise BackupRefused(f"{LIST_NAME} is no list of a backup") from exc
        if kind != (_FORMAT, _VERSION):
            raise BackupRefused(f"a backup of format {kind[0]!r} {kind[1]!r}"[:200])
        strange = next((name for name in files if not is_backup_name(name)), None)
        if strange is not None or DATABASE_NAME not in files:
            raise BackupRefused(f"{LIST_NAME} names {strange!r}"[:200])
        if not all(type(number) is int and number >= 0 for number in numbers):
            raise BackupRefused(f"{LIST_NAME} is of schema {numbers[0]!r}"[:200])
        return BackupList(schema=numbers[0], taken_us=numbers[1], files=files)


class Sink(Protocol):
    """Where a backup is written to."""

    def add(self, name: str, file: IO[bytes], n_bytes: int) -> FileEntry:
        """Copy `n_bytes` of a file under a name.

        Raises:
            BackupRefused: the file ends before.
            OSError: it cannot be written.
        """
        ...


def is_archive(path: Path) -> bool:
    """Say whether a backup of this name is one file."""
    return path.suffix == ".tar"


def is_backup_name(name: str) -> bool:
    """Say whether a file of this name can be part of a backup, its list aside."""
    if name in {DATABASE_NAME, "witnesses"} or _LEAF_NAME.fullmatch(name):
        return True
    return name.startswith("log/") and is_log_path(name.removeprefix("log/"))


@contextmanager
def open_sink(target: Path) -> Iterator[Sink]:
    """Open a new backup for writing: an archive or a folder, durable when it closes.

    Raises:
        OSError: there is something already, or it cannot be made.
    """
    if not is_archive(target):
        target.mkdir(mode=0o700)
        yield _FolderSink(target)
        for folder in (*(p for p in target.rglob("*") if p.is_dir()), target):
            sync_folder(folder)
        return
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        with tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            yield _ArchiveSink(archive)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(target.parent)


def extract(source: Path, folder: Path) -> BackupList:
    """Copy a backup's files into a new folder and check every one against the list.

    Raises:
        BackupRefused: it is not whole, not as listed, or holds anything else.
        OSError: it cannot be read, or the folder not be written.
    """
    sink = _FolderSink(folder)
    folder.mkdir(mode=0o700)
    found: dict[str, FileEntry] = {}
    listed: bytes | None = None
    try:
        for name, file, n_bytes in _members(source):
            if listed is not None and is_archive(source):
                raise BackupRefused(f"{source} goes on after its list")
            if name == LIST_NAME:
                listed = file.read(_MAX_LIST_BYTES + 1)
            elif name in found:
                raise BackupRefused(f"{source} has {name} twice")
            else:
                found[name] = sink.add(name, file, n_bytes)
    except (tarfile.TarError, ValueError, OverflowError, EOFError) as exc:
        # from the archive's next header, or from within a member that is cut off
        raise BackupRefused(f"{source} is no whole archive: {exc}") from exc
    if listed is None or len(listed) > _MAX_LIST_BYTES:
        raise BackupRefused(f"{source} has no list of its files: it is not whole")
    backup = BackupList.parse(listed)
    for name in sorted(backup.files.keys() | found.keys()):
        if backup.files.get(name) != found.get(name):
            raise BackupRefused(f"{source}: {name} is not as listed")
    for each in (*(p for p in folder.rglob("*") if p.is_dir()), folder):
        sync_folder(each)
    return backup


class _FolderSink:
    """Files below a folder, each synced; names by whoever closes it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def add(self, name: str, file: IO[bytes], n_bytes: int) -> FileEntry:
        path = self._folder / name
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        digest = sha256()
        with os.fdopen(handle, "wb") as out:
            left = n_bytes
            while left:
                block = file.read(min(_CHUNK, left))
                if not block:
                    raise BackupRefused(f"{name} ends {left} bytes too early")
                digest.update(block)
                out.write(block)
                left -= len(block)
            out.flush()
            os.fsync(out.fileno())
        return FileEntry(n_bytes, digest.digest())


class _ArchiveSink:
    """Members of a tar archive, without times or owners."""

    def __init__(self, archive: tarfile.TarFile) -> None:
        self._archive = archive

    def add(self, name: str, file: IO[bytes], n_bytes: int) -> FileEntry:
        member = tarfile.TarInfo(name)
        member.size, member.mode = n_bytes, 0o600
        reader = _Hashing(file)
        try:
            # All that tarfile does with it is to read.
            self._archive.addfile(member, cast("IO[bytes]", reader))
        except OSError as exc:
            if reader.is_short:
                raise BackupRefused(f"{name} ends too early") from exc
            raise
        return FileEntry(n_bytes, reader.digest.digest())


class _Hashing:
    """A file that hashes what is read from it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = sha256()
        self.is_short = False

    def read(self, n_bytes: int) -> bytes:
        block = self._file.read(n_bytes)
        self.is_short = len(block) < n_bytes
        self.digest.update(block)
        return block


def _members(source: Path) -> Iterator[tuple[str, IO[bytes], int]]:
    """Yield name, open file and length of everything that a backup consists of."""
    if not is_archive(source):
        for path in sorted(source.rglob("*")):
            name = path.relative_to(source).as_posix()
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise BackupRefused(f"{path} is no plain file")
            if path.is_file() and (name == LIST_NAME or is_backup_name(name)):
                with path.open("rb") as file:
                    yield name, file, os.fstat(file.fileno()).st_size
        return
    with tarfile.open(source, mode="r|") as archive:
        for member in archive:
            yield member.name, _opened(archive, member), member.size


def _opened(archive: tarfile.TarFile, member: tarfile.TarInfo) -> IO[bytes]:
    """Open a member; none but a plain file of a known name."""
    is_known = member.name == LIST_NAME or is_backup_name(member.name)
    is_plain = member.type in {tarfile.REGTYPE, tarfile.AREGTYPE}
    file = archive.extractfile(member) if is_known and is_plain else None
    if file is None or member.sparse is not None:
        raise BackupRefused(f"the archive holds {member.name!r}"[:300])
    return file


def _entry(n_bytes: object, digest: object) -> FileEntry:
    if type(n_bytes) is not int or n_bytes < 0:
        raise ValueError(n_bytes)
    if not isinstance(digest, str) or not _HEX.fullmatch(digest):
        raise ValueError(digest)
    return FileEntry(n_bytes, bytes.fromhex(digest))
