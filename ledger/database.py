"""Open the ledger's database: one writing engine, any number of short reads.

Contract: SQLite in WAL mode with synchronous=FULL. A writing transaction begins with
BEGIN IMMEDIATE, so it waits for its turn instead of failing half-way (a deferred one
that reads first gets SQLITE_BUSY at once, whatever the timeout). Only one process opens
a folder for writing; it holds a lock that the system drops with the process, kill -9
included. Readers open the file read-only and see one moment of it. Faults of the
machine (full, read-only, missing) become one-line `StoreUnavailable` errors.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    select,
)
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, StaticPool

from ledger.errors import (
    FolderInUse,
    LedgerError,
    NoLedger,
    StoreBusy,
    StoreUnavailable,
)
from ledger.migrations import migrate, stored_version
from ledger.schema import SCHEMA_VERSION, identity

__all__ = [
    "FolderLock",
    "LedgerFolder",
    "LedgerIdentity",
    "Reader",
    "highest",
    "open_writing_engine",
    "store_error",
]

_BUSY_TIMEOUT_MS = 5000
_WAL_PAGES = 4096  # checkpoint at 16 MiB of log


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
        """The SQLite file."""
        return self.path / "ledger.sqlite3"

    @property
    def leaves(self) -> Path:
        """The folder of leaf files."""
        return self.path / "leaves"

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

    def release(self) -> None:
        """Give the lock back."""
        self._connection.close()


def open_writing_engine(folder: LedgerFolder, owner: LedgerIdentity) -> Engine:
    """Open or create the database for the one writer, at the current schema.

    Raises:
        StoreUnavailable: it cannot be opened, or belongs to another ledger.
    """
    engine = create_engine(
        f"sqlite:///{folder.database}",
        poolclass=StaticPool,
        connect_args={"check_same_thread": False, "isolation_level": None},
    )
    event.listen(engine, "connect", _set_up_writer)
    event.listen(engine, "begin", _begin_immediate)
    try:
        with engine.begin() as connection:
            migrate(connection)
            _claim(connection, owner, folder)
    except DBAPIError as exc:
        engine.dispose()
        raise store_error(exc, folder) from exc
    except LedgerError:
        engine.dispose()
        raise
    return engine


class Reader:
    """Read-only access; each `session` is one short transaction, one moment."""

    def __init__(self, path: Path) -> None:
        """Look at a ledger's folder.

        Raises:
            NoLedger: there is none.
            StoreUnavailable: it cannot be read, or is of another schema.
        """
        self.folder = LedgerFolder(path)
        if not self.folder.database.exists():
            raise NoLedger(f"no ledger in {path}")
        self._engine = create_engine(
            "sqlite://", creator=self._connect, poolclass=NullPool
        )
        event.listen(self._engine, "begin", _begin_deferred)
        with self.session() as connection:
            version = stored_version(connection)
            if version != SCHEMA_VERSION:
                raise StoreUnavailable(
                    f"ledger schema {version}, this program reads {SCHEMA_VERSION}"
                )
            row = connection.execute(select(identity)).one()
        self.identity = LedgerIdentity(
            network=row.network, ledger=row.ledger, market=row.market
        )

    @contextmanager
    def session(self) -> Iterator[Connection]:
        """Open one read transaction; keep it short, it holds back the log's reuse.

        Raises:
            StoreUnavailable: the database cannot be read.
        """
        try:
            with self._engine.connect() as connection:
                yield connection
        except DBAPIError as exc:
            raise store_error(exc, self.folder) from exc

    def _connect(self) -> sqlite3.Connection:
        uri = f"{self.folder.database.resolve().as_uri()}?mode=ro"
        connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            connection.execute("select 1 from sqlite_master").fetchall()
        except sqlite3.OperationalError:
            # A read-only folder has no room for the log's index; without a log there
            # is nothing to miss.
            connection.close()
            log = self.folder.database.with_name(f"{self.folder.database.name}-wal")
            if log.exists() and log.stat().st_size:
                raise
            connection = sqlite3.connect(
                f"{uri}&immutable=1", uri=True, isolation_level=None
            )
        connection.execute(f"pragma busy_timeout = {_BUSY_TIMEOUT_MS}")
        connection.execute("pragma query_only = 1")
        return connection


def highest(connection: Connection, column: ColumnElement[int]) -> int:
    """Return the greatest value of a column, 0 for an empty table."""
    return connection.execute(select(func.max(column))).scalar_one() or 0


def store_error(error: Exception, folder: LedgerFolder) -> LedgerError:
    """Translate a fault of the database or disk into the ledger's own error."""
    reason = _reason(error)
    if "locked" in reason or "busy" in reason:
        return StoreBusy(f"ledger {folder.path}: {reason}")
    return StoreUnavailable(f"ledger {folder.path}: {reason}")


def _reason(error: Exception) -> str:
    origin = error.orig if isinstance(error, DBAPIError) and error.orig else error
    text = origin.strerror if isinstance(origin, OSError) else str(origin)
    return (text or type(origin).__name__).splitlines()[0]


def _set_up_writer(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout = {_BUSY_TIMEOUT_MS}",
        "journal_mode = wal",
        "synchronous = full",
        "foreign_keys = 1",
        f"wal_autocheckpoint = {_WAL_PAGES}",
    ):
        cursor.execute(f"pragma {pragma}")
    cursor.close()


def _begin_immediate(connection: Connection) -> None:
    connection.exec_driver_sql("begin immediate")


def _begin_deferred(connection: Connection) -> None:
    connection.exec_driver_sql("begin")


def _claim(connection: Connection, owner: LedgerIdentity, folder: LedgerFolder) -> None:
    keys = {"network": owner.network, "ledger": owner.ledger, "market": owner.market}
    row = connection.execute(select(identity)).one_or_none()
    if row is None:
        connection.execute(identity.insert().values(**keys))
        return
    for name, key in keys.items():
        stored = getattr(row, name)
        if stored != key:
            raise StoreUnavailable(
                f"{folder.path} is of {name} {stored[:4].hex()}, not {key[:4].hex()}"
            )
