"""Put a ledger's database elsewhere: into PostgreSQL, or back into SQLite.

Contract: the copy is made and compared (`ledger.copying`) before anything changes. To
*switch* is to make the folder use it from then on: under the folder's lock, so that
nothing is written meanwhile; by one rename of `database.url` or `ledger.sqlite3`, so
that at every moment one database counts. The one left behind is kept, renamed to
`*.moved`, and never used again by itself. Leaves, log and lock stay in the folder.
"""

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import URL
from sqlalchemy.exc import DBAPIError

from ledger import database_postgres, database_sqlite
from ledger.copying import CopyReport, copy_database
from ledger.database import (
    FolderLock,
    LedgerFolder,
    Reader,
    store_error,
    writing_engine,
)
from ledger.database_url import write_url
from ledger.errors import NoLedger, TargetNotEmpty
from ledger.folders import sync_folder
from ledger.migrations import migrate, stored_version

__all__ = ["copy_ledger", "migrate_ledger", "switch_to_sqlite"]

Tell = Callable[[str, float], None]


def copy_ledger(
    path: Path, url: URL, *, is_switch: bool, tell: Tell | None = None
) -> CopyReport:
    """Copy a ledger's database into an empty PostgreSQL database.

    Args:
        path: the ledger's folder.
        url: where to.
        is_switch: use the copy from then on; else the ledger may run meanwhile.
        tell: told the table at work and the share done.

    Raises:
        FolderInUse: to switch, the ledger must not run.
        TargetNotEmpty: the target holds a ledger.
        LedgerError: a database cannot be read or written; nothing has changed.
    """
    folder = LedgerFolder(path)
    with _translated(folder), _locked(folder) if is_switch else _unlocked():
        engine = database_postgres.writing_engine(url)
        try:
            with Reader(path).session() as source:
                report = copy_database(source, engine, tell)
        finally:
            engine.dispose()
        if is_switch:
            was_sqlite = not folder.database_url.exists()
            if was_sqlite:
                _close_file(folder.database)
            write_url(folder.database_url, url)
            if was_sqlite:
                _set_aside(folder.database)
    return report


def switch_to_sqlite(path: Path, tell: Tell | None = None) -> CopyReport:
    """Copy a ledger's PostgreSQL database into its folder, and use that from then on.

    Raises:
        FolderInUse: the ledger must not run.
        TargetNotEmpty: the folder has, or uses, a SQLite database.
        LedgerError: a database cannot be read or written; nothing has changed.
    """
    folder = LedgerFolder(path)
    partial = folder.database.with_name(f"{folder.database.name}.partial")
    with _translated(folder), _locked(folder):
        if folder.database.exists():
            raise TargetNotEmpty(f"{folder.database} exists")
        partial.unlink(missing_ok=True)
        engine = database_sqlite.writing_engine(partial)
        try:
            with Reader(path).session() as source:
                report = copy_database(source, engine, tell)
        except BaseException:
            engine.dispose()
            partial.unlink(missing_ok=True)
            raise
        engine.dispose()
        _close_file(partial)
        partial.rename(folder.database)
        sync_folder(path)
        _set_aside(folder.database_url)
    return report


def migrate_ledger(path: Path) -> tuple[int, int]:
    """Bring a ledger's database to this program's schema; return (before, after).

    Raises:
        NoLedger: there is none.
        FolderInUse: the ledger runs, and is current then.
        StoreUnavailable: it is of a newer program, or cannot be written.
    """
    folder = LedgerFolder(path)
    if not folder.holds_ledger:
        raise NoLedger(f"no ledger in {path}")
    with _translated(folder), _locked(folder):
        engine = writing_engine(folder)
        try:
            with engine.begin() as connection:
                before = stored_version(connection)
                migrate(connection)
                after = stored_version(connection)
        finally:
            engine.dispose()
    return before, after


def _close_file(path: Path) -> None:
    """Write a SQLite file's log back into it, so that it stands alone."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = delete")


def _set_aside(path: Path) -> None:
    path.rename(_free_name(path))
    sync_folder(path.parent)


def _free_name(path: Path) -> Path:
    names = (path.with_name(f"{path.name}.moved{n or ''}") for n in range(1000))
    return next(name for name in names if not name.exists())


@contextlib.contextmanager
def _locked(folder: LedgerFolder) -> Iterator[None]:
    lock = FolderLock(folder.lock)
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _unlocked() -> Iterator[None]:
    yield


@contextlib.contextmanager
def _translated(folder: LedgerFolder) -> Iterator[None]:
    """Turn faults of disk and database into the ledger's own errors."""
    try:
        yield
    except (OSError, sqlite3.Error, DBAPIError) as exc:
        raise store_error(exc, folder) from exc
