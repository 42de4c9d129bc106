"""Take a backup of a ledger while it runs, and put one back.

Contract: what is taken is consistent: first the log (its checkpoint, then its tiles, so
that it is never ahead of the database), then one moment of the database (SQLite's
backup API; from PostgreSQL row by row out of one transaction), then of every leaf file
as much as that moment has committed. It appears under its name only when it is whole.
Keys are not in it: they lie in the operator's folder.

Restoring checks every file before anything is put in place, writes over nothing, and
puts the database in last: a folder without one holds no ledger.
"""

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import URL, Engine, select
from sqlalchemy.exc import DBAPIError

from ledger import database_postgres, database_sqlite
from ledger.backup_files import (
    DATABASE_NAME,
    LIST_NAME,
    BackupList,
    FileEntry,
    Sink,
    extract,
    is_backup_name,
    open_sink,
)
from ledger.copying import copy_database
from ledger.database import FolderLock, LedgerFolder, Reader, store_error
from ledger.database_triggers import trigger_problem
from ledger.database_url import write_url
from ledger.errors import (
    BackupRefused,
    DifferenceFound,
    NoLedger,
    StoreUnavailable,
    TargetNotEmpty,
)
from ledger.folders import sync_folder
from ledger.leaf_files import leaf_path, packed_path, pruned_path
from ledger.log.tiles import CHECKPOINT_PATH
from ledger.migrations import migrate, stored_version
from ledger.schema import SCHEMA_VERSION, leaf_file

__all__ = ["BackupReport", "restore_backup", "take_backup"]

_N_TRIES = 3  # a leaf file may be pruned while the backup is taken
Tell = Callable[[str, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackupReport:
    """What a backup holds."""

    files: int
    n_bytes: int
    schema: int
    taken_us: int


def take_backup(
    path: Path, target: Path, now_us: int, tell: Tell | None = None
) -> BackupReport:
    """Back up the ledger in a folder; it may run meanwhile.

    Args:
        path: the ledger's folder.
        target: a new folder, or a new file that ends in `.tar`.
        now_us: the time that the backup carries.
        tell: told what is copied, and the share done.

    Raises:
        TargetNotEmpty: there is something at `target`.
        LedgerError: the ledger cannot be read, or the target not be written.
    """
    if target.exists() or target.is_symlink():
        raise TargetNotEmpty(f"{target} exists")
    folder = LedgerFolder(path)
    if not folder.holds_ledger:
        raise NoLedger(f"no ledger in {path}")
    partial = target.with_name(f"{target.stem}.partial{target.suffix}")
    left = _N_TRIES
    while True:
        left -= 1
        try:
            with _cleared(partial), _cleared(_work_of(partial)):
                report = _take(folder, partial, now_us, tell or _silence)
                partial.rename(target)
            sync_folder(target.parent)
        except _PrunedMeanwhile as exc:
            if not left:
                raise StoreUnavailable(f"backup of {path}: {exc}") from exc
        except (OSError, sqlite3.Error, DBAPIError) as exc:
            raise store_error(exc, folder) from exc
        else:
            return report


def restore_backup(
    source: Path, path: Path, url: URL | None = None, tell: Tell | None = None
) -> BackupReport:
    """Put a backup into a folder that holds no ledger.

    Args:
        source: the backup, folder or file.
        path: the ledger's folder, made if missing.
        url: PostgreSQL database to put the rows into; None for SQLite.
        tell: told what is done, and the share.

    Raises:
        TargetNotEmpty: folder or database hold a ledger.
        BackupRefused: the backup is not whole, or damaged.
        FolderInUse: a process writes the folder.
        StoreUnavailable: it is of a newer program, or a disk refused.
    """
    folder, tell = LedgerFolder(path), tell or _silence
    if not source.exists():
        raise BackupRefused(f"there is no backup {source}")
    lock = FolderLock(folder.lock)
    try:
        _refuse_occupied(folder)
        partial = folder.path / "restore.partial"
        with _cleared(partial):
            tell("reading the backup", 0.0)
            backup = extract(source, partial)
            _check_database(partial / DATABASE_NAME, backup)
            _put_in_place(folder, partial, url, tell)
    except OSError as exc:
        raise store_error(exc, folder) from exc
    finally:
        lock.release()
    return _report(backup)


class _PrunedMeanwhile(Exception):
    """A leaf file went while the backup was taken: the next try finds it pruned."""


def _take(folder: LedgerFolder, partial: Path, now_us: int, tell: Tell) -> BackupReport:
    files: dict[str, FileEntry] = {}
    work = _work_of(partial)
    work.mkdir(mode=0o700)
    snapshot = work / DATABASE_NAME
    with open_sink(partial) as sink:
        for _ in range(2):  # a tile that goes meanwhile has grown into another
            for name in [n for n in _log_names(folder) if n not in files]:
                with contextlib.suppress(FileNotFoundError):
                    _add(sink, files, name, folder.path / name)
        tell("database", 0.1)
        _take_database(folder, snapshot)
        _add(sink, files, DATABASE_NAME, snapshot)
        lengths = _leaf_lengths(snapshot)
        for n, (number, n_bytes) in enumerate(sorted(lengths.items())):
            tell(f"leaf file {number}", 0.3 + 0.7 * n / len(lengths))
            _add_leaves(sink, files, folder, number, n_bytes)
        schema = _schema_of(snapshot)
        backup = BackupList(schema=schema, taken_us=now_us, files=files)
        (work / LIST_NAME).write_bytes(backup.pack())
        _add(sink, {}, LIST_NAME, work / LIST_NAME)
    return _report(backup)


def _take_database(folder: LedgerFolder, snapshot: Path) -> None:
    """Write one moment of the database as a SQLite file without a log of its own."""
    if folder.database_url.exists():
        engine = database_sqlite.writing_engine(snapshot)
        try:
            with Reader(folder.path).session() as connection:
                copy_database(connection, engine)
        finally:
            engine.dispose()
    else:
        source = sqlite3.connect(
            f"{folder.database.resolve().as_uri()}?mode=ro", uri=True
        )
        with contextlib.closing(source):
            with contextlib.closing(sqlite3.connect(snapshot)) as copy:
                source.backup(copy)
    with contextlib.closing(sqlite3.connect(snapshot)) as copy:
        copy.execute("pragma journal_mode = delete")
        problem = copy.execute("pragma quick_check(1)").fetchone()[0]
    if problem != "ok":
        told = " ".join(problem.split())
        raise DifferenceFound(f"the database of {folder.path}: {told}")


def _add_leaves(
    sink: Sink,
    files: dict[str, FileEntry],
    folder: LedgerFolder,
    number: int,
    n_bytes: int,
) -> None:
    """Copy a leaf file in the form it has, as far as it is committed."""
    for path, length in (
        (leaf_path(folder.leaves, number), n_bytes),
        (packed_path(folder.leaves, number), None),
        (pruned_path(folder.leaves, number), None),
    ):
        try:
            _add(sink, files, f"leaves/{path.name}", path, length)
        except FileNotFoundError:
            continue
        return
    if n_bytes:
        raise _PrunedMeanwhile(f"leaf file {number} is missing")


def _add(
    sink: Sink,
    files: dict[str, FileEntry],
    name: str,
    path: Path,
    n_bytes: int | None = None,
) -> None:
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size if n_bytes is None else n_bytes
        try:
            files[name] = sink.add(name, file, size)
        except BackupRefused as exc:
            raise DifferenceFound(f"{path}: {exc}") from exc


def _log_names(folder: LedgerFolder) -> Iterator[str]:
    """Yield the log's files, the checkpoint first, and the list of witnesses."""
    yield f"log/{CHECKPOINT_PATH}"
    yield folder.witnesses.name
    for path in sorted(folder.log.rglob("*")):
        name = path.relative_to(folder.path).as_posix()
        is_tile = is_backup_name(name) and path.name != CHECKPOINT_PATH
        if is_tile and path.is_file():
            yield name


def _leaf_lengths(snapshot: Path) -> dict[int, int]:
    engine = database_sqlite.reading_engine(snapshot)
    with engine.connect() as connection:
        rows = connection.execute(select(leaf_file)).all()
    return {row.number: row.length_bytes for row in rows}


def _refuse_occupied(folder: LedgerFolder) -> None:
    # A log of a database that is gone would be taken for the new one's.
    name = folder.database.name
    journals = [folder.path / f"{name}{end}" for end in ("-wal", "-journal")]
    own = (folder.database, folder.database_url, folder.leaves, folder.log)
    for path in (*own, *journals):
        if path.exists():
            raise TargetNotEmpty(f"{path} exists")


def _check_database(path: Path, backup: BackupList) -> None:
    """Refuse a database that is damaged, of a newer program, or not the one listed."""
    try:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            problem = connection.execute("pragma integrity_check(1)").fetchone()[0]
        if problem != "ok":
            told = " ".join(problem.split())
            raise BackupRefused(f"{DATABASE_NAME} in the backup: {told}")
        schema = _schema_of(path)
        _check_triggers(path)
    except (sqlite3.Error, DBAPIError, DifferenceFound) as exc:
        raise BackupRefused(f"{DATABASE_NAME} in the backup: {exc}") from exc
    if schema != backup.schema:
        raise BackupRefused(f"schema {schema} in the backup, listed {backup.schema}")


def _check_triggers(path: Path) -> None:
    engine = database_sqlite.reading_engine(path)
    with engine.connect() as connection:
        problem = trigger_problem(connection)
    if problem:
        raise BackupRefused(f"{DATABASE_NAME} in the backup: {problem}")


def _schema_of(path: Path) -> int:
    engine = database_sqlite.reading_engine(path)
    with engine.connect() as connection:
        version = stored_version(connection)
    if version > SCHEMA_VERSION:
        raise StoreUnavailable(
            f"ledger schema {version} is newer than this program's {SCHEMA_VERSION}"
        )
    return version


def _put_in_place(
    folder: LedgerFolder, partial: Path, url: URL | None, tell: Tell
) -> None:
    """Move leaves and log, then the database: what is cut short holds no ledger."""
    parts = (folder.leaves, folder.log, folder.witnesses)
    moved = [path for path in parts if (partial / path.name).exists()]
    try:
        for path in moved:
            (partial / path.name).replace(path)
        if url is None:
            sync_folder(folder.path)
            (partial / DATABASE_NAME).rename(folder.database)
        else:
            tell("rows into PostgreSQL", 0.5)
            _fill(database_postgres.writing_engine(url), partial / DATABASE_NAME)
            write_url(folder.database_url, url)
        sync_folder(folder.path)
    except BaseException:
        if not folder.holds_ledger:
            for path in moved:
                _remove(path)
        raise


def _fill(target: Engine, path: Path) -> None:
    source = database_sqlite.writing_engine(path)
    try:
        with source.begin() as connection:
            migrate(connection)
            copy_database(connection, target)
    finally:
        source.dispose()
        target.dispose()


def _work_of(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.work")


@contextlib.contextmanager
def _cleared(path: Path) -> Iterator[None]:
    """Remove a file or folder before the block and after it, whatever happens."""
    _remove(path)
    try:
        yield
    finally:
        _remove(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _report(backup: BackupList) -> BackupReport:
    return BackupReport(
        files=len(backup.files),
        n_bytes=sum(entry.n_bytes for entry in backup.files.values()),
        schema=backup.schema,
        taken_us=backup.taken_us,
    )


def _silence(_: str, __: float) -> None:
    """Tell nobody."""
