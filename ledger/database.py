"""Open the ledger's database: one writing engine, any number of short reads.

Contract: SQLite in the ledger's folder, or the PostgreSQL database that the folder's
`database.url` names (`ledger.database_sqlite`, `ledger.database_postgres`); everything
above sees no difference. Only one process opens a folder for writing; it holds a lock
that the system drops with the process, kill -9 included. Each read session is one
moment of the database. Faults of the machine (full, read-only, missing, server gone)
become one-line `StoreUnavailable` errors.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import ColumnElement, Connection, Engine, func, select
from sqlalchemy.exc import DBAPIError, StatementError

from ledger import database_postgres, database_sqlite
from ledger.cell_types import MISTYPED, wrong_cell
from ledger.database_url import read_url
from ledger.errors import (
    DifferenceFound,
    FolderInUse,
    LedgerError,
    NoLedger,
    StoreBusy,
    StoreUnavailable,
)
from ledger.folders import lock_folder, unlock_folder
from ledger.keys import KEY_BYTES
from ledger.migrations import migrate, stored_version
from ledger.schema import SCHEMA_VERSION, identity

__all__ = [
    "FolderLock",
    "LedgerFolder",
    "LedgerIdentity",
    "Reader",
    "highest",
    "open_reading_engine",
    "open_writing_engine",
    "store_error",
    "writing_engine",
]

_NOT_TEXT = "Could not decode to UTF-8"  # SQLite: bytes that are marked as text
# What PostgreSQL calls a lock or its time not got in time, and a lost race: try again.
_BUSY_STATES = frozenset({"55P03", "57014", "40001", "40P01"})


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerIdentity:
    """Whose ledger this is: three 32-byte Ed25519 public keys."""

    network: bytes
    ledger: bytes
    market: bytes


@dataclass(frozen=True, slots=True)
class LedgerFolder:
    """Where the parts of a ledger lie."""

    path: Path

    @property
    def database(self) -> Path:
        """The SQLite file; there is none where `database_url` is."""
        return self.path / "ledger.sqlite3"

    @property
    def database_url(self) -> Path:
        """The file that names a PostgreSQL database instead (`ledger.database_url`)."""
        return self.path / "database.url"

    @property
    def holds_ledger(self) -> bool:
        """Whether there is a ledger here, in SQLite or elsewhere."""
        return self.database.exists() or self.database_url.exists()

    @property
    def leaves(self) -> Path:
        """The folder of leaf files."""
        return self.path / "leaves"

    @property
    def log(self) -> Path:
        """The folder of the public log: `checkpoint` and `tile/`."""
        return self.path / "log"

    @property
    def witnesses(self) -> Path:
        """The file of the witnesses that the operator knows, one key a line."""
        return self.path / "witnesses"

    @property
    def lock(self) -> Path:
        """The file whose lock says that a process writes here."""
        return self.path / "ledger.lock"


class FolderLock:
    """Held by the one process that writes a folder; gone when the process is."""

    def __init__(self, path: Path) -> None:
        """Take the lock.

        Raises:
            FolderInUse: another process holds it.
            StoreUnavailable: the folder cannot be used.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            # SQLite's own file lock works the same on every system.
            self._connection = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as exc:
            raise StoreUnavailable(f"{path.parent}: {_reason(exc)}") from exc
        try:
            self._connection.execute("begin exclusive")
        except sqlite3.Error as exc:
            self._connection.close()
            if "locked" in str(exc):
                raise FolderInUse(f"another process writes {path.parent}") from exc
            raise StoreUnavailable(f"{path.parent}: {_reason(exc)}") from exc
        try:
            self._folder = lock_folder(path.parent)
        except BlockingIOError as exc:
            self._connection.close()
            raise FolderInUse(f"another process writes {path.parent}") from exc

    def release(self) -> None:
        """Give the lock back."""
        unlock_folder(self._folder)
        self._folder = None
        self._connection.close()


def open_writing_engine(folder: LedgerFolder, owner: LedgerIdentity) -> Engine:
    """Open or create the database for the one writer, at the current schema.

    Raises:
        StoreUnavailable: it cannot be opened, belongs to another ledger, or is empty
            where the folder is not.
        FolderInUse: another process writes the PostgreSQL database.
    """
    engine = writing_engine(folder)
    try:
        with engine.begin() as connection:
            migrate(connection)
            _claim(connection, owner, folder)
    except (DBAPIError, OSError) as exc:
        engine.dispose()
        raise store_error(exc, folder) from exc
    except LedgerError:
        engine.dispose()
        raise
    return engine


def writing_engine(folder: LedgerFolder) -> Engine:
    """Return the engine of the one writer, as it finds the database: no schema yet.

    Raises:
        StoreUnavailable: `database.url` cannot be used.
    """
    url = read_url(folder.database_url)
    if url is None:
        return database_sqlite.writing_engine(folder.database)
    return database_postgres.writing_engine(url)


def open_reading_engine(folder: LedgerFolder) -> Engine:
    """Return an engine whose every transaction is one read-only moment.

    Raises:
        NoLedger: there is none in the folder.
        StoreUnavailable: `database.url` cannot be used.
    """
    url = read_url(folder.database_url)
    if url is not None:
        return database_postgres.reading_engine(url)
    if not folder.database.exists():
        raise NoLedger(f"no ledger in {folder.path}")
    return database_sqlite.reading_engine(folder.database)


class Reader:
    """Read-only access; each `session` is one short transaction, one moment."""

    def __init__(self, path: Path) -> None:
        """Look at a ledger's folder.

        Raises:
            NoLedger: there is none.
            StoreUnavailable: it cannot be read, or is of another schema.
        """
        self.folder = LedgerFolder(path)
        self._engine = open_reading_engine(self.folder)
        with self.session() as connection:
            version = stored_version(connection)
            if version == 0:
                raise NoLedger(f"no ledger in {path}: its database has no tables")
            if version != SCHEMA_VERSION:
                raise _other_schema(version)
            rows = connection.execute(select(identity).limit(2)).all()
            if len(rows) != 1:
                raise DifferenceFound(f"ledger {path} names {len(rows)} owners")
            row = rows[0]
            for name in ("network", "ledger", "market"):
                key: object = getattr(row, name)
                if not isinstance(key, bytes) or len(key) != KEY_BYTES:
                    raise DifferenceFound(f"ledger {path} names no {name} key")
        self.identity = LedgerIdentity(
            network=row.network, ledger=row.ledger, market=row.market
        )

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """Open one read transaction; keep it short, it holds back the log's reuse.

        Raises:
            StoreUnavailable: the database cannot be read.
            DifferenceFound: whoever read it stumbled over a value of a wrong kind.
        """
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as exc:
            if _NOT_TEXT in str(exc.orig):
                raise DifferenceFound(f"ledger {self.folder.path}: {exc.orig}") from exc
            raise store_error(exc, self.folder) from exc
        except (*MISTYPED, StatementError) as exc:
            with self._engine.connect() as connection:
                wrong = wrong_cell(connection)
            if not wrong:
                raise
            raise DifferenceFound(f"ledger {self.folder.path}: {wrong}") from exc


def highest(connection: Connection, column: ColumnElement[int]) -> int:
    """Return the greatest value of a column, 0 for an empty table."""
    return connection.execute(select(func.max(column))).scalar_one() or 0


def store_error(error: Exception, folder: LedgerFolder) -> LedgerError:
    """Translate a fault of the database or disk into the ledger's own error."""
    reason = _reason(error)
    origin = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(origin, "sqlstate", None)
    is_locked = isinstance(origin, sqlite3.Error) and (
        "locked" in reason or "busy" in reason
    )
    if is_locked or state in _BUSY_STATES:
        return StoreBusy(f"ledger {folder.path}: {reason}")
    unavailable = StoreUnavailable(f"ledger {folder.path}: {reason}")
    if isinstance(error, DBAPIError) and not isinstance(origin, sqlite3.Error):
        unavailable.advice = (
            "Check that the database is up, has room, and is the one in the URL's file."
        )
    return unavailable


def _other_schema(version: int) -> StoreUnavailable:
    text = f"ledger schema {version}, this program reads {SCHEMA_VERSION}"
    error = StoreUnavailable(text)
    error.advice = "Use the newer program that wrote it."
    if version < SCHEMA_VERSION:
        error.advice = "Take a backup, then: p2pmoe ledger migrate."
    return error


def _reason(error: Exception) -> str:
    origin = error.orig if isinstance(error, DBAPIError) and error.orig else error
    text = origin.strerror if isinstance(origin, OSError) else str(origin)
    return (text or type(origin).__name__).splitlines()[0]


def _refuse_remains(folder: LedgerFolder) -> None:
    """Refuse to begin a ledger among the leaves or the log of one.

    A new database knows none of them: the writer would cut them off.
    """
    remains = [folder.log / "checkpoint"]
    if folder.leaves.is_dir():
        remains += sorted(folder.leaves.iterdir())
    for path in remains:
        if path.is_file() and path.stat().st_size:
            error = StoreUnavailable(f"the database is empty, but there is {path}")
            error.advice = (
                "Put back ledger.sqlite3 or database.url, or restore a backup into "
                "an empty folder."
            )
            raise error


def _claim(connection: Connection, owner: LedgerIdentity, folder: LedgerFolder) -> None:
    keys = {"network": owner.network, "ledger": owner.ledger, "market": owner.market}
    rows = connection.execute(select(identity).limit(2)).all()
    if not rows:
        _refuse_remains(folder)
        connection.execute(identity.insert().values(**keys))
        return
    if len(rows) != 1:
        raise DifferenceFound(f"ledger {folder.path} names {len(rows)} owners")
    row = rows[0]
    for name, key in keys.items():
        stored = getattr(row, name)
        if stored != key:
            raise StoreUnavailable(
                f"{folder.path} is of {name} {stored[:4].hex()}, not {key[:4].hex()}"
            )
