"""The ledger's database in SQLite: WAL, synchronous=FULL, BEGIN IMMEDIATE.

Contract: a writing transaction begins with BEGIN IMMEDIATE, so it waits for its turn
instead of failing half-way (a deferred one that reads first gets SQLITE_BUSY at once,
whatever the timeout). Readers open the file read-only and see one moment of it; a file
from elsewhere that has a view, or a cell that no ledger writes, is refused.
Sources: sqlite.org/wal.html, sqlite.org/pragma.html, SQLAlchemy on pysqlite's BEGIN.
"""

import sqlite3
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, StaticPool

from ledger.errors import DifferenceFound

__all__ = [
    "engine_facts",
    "integrity_problem",
    "reading_engine",
    "wal_bytes",
    "writing_engine",
]

_BUSY_TIMEOUT_MS = 5000
_WAL_PAGES = 4096  # checkpoint at 16 MiB of log
_MAX_CELL_BYTES = 64 << 20  # the greatest, a held final's leaves, has a third of a MiB
# A ledger has none. One in a table's place could be computed without end.
_VIEWS = (
    "select name from sqlite_master "
    "where type = 'view' or type = 'table' and coalesce(rootpage, 0) = 0"
)


def writing_engine(path: Path) -> Engine:
    """Return an engine with one connection that writes the file, made if missing."""
    engine = create_engine(
        f"sqlite:///{path}",
        poolclass=StaticPool,
        connect_args={"check_same_thread": False, "isolation_level": None},
    )
    event.listen(engine, "connect", _set_up_writer)
    event.listen(engine, "begin", _begin_immediate)
    return engine


def reading_engine(path: Path) -> Engine:
    """Return an engine whose every transaction is one read-only moment of the file."""
    engine = create_engine(
        "sqlite://", creator=lambda: _connect_reader(path), poolclass=NullPool
    )
    event.listen(engine, "begin", _begin_deferred)
    return engine


def wal_bytes(path: Path) -> int:
    """Return the length of the file's write-ahead log, 0 without one."""
    log = path.with_name(f"{path.name}-wal")
    return log.stat().st_size if log.exists() else 0


def _connect_reader(path: Path) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode=ro"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        views = connection.execute(_VIEWS).fetchall()
    except sqlite3.OperationalError:
        # A read-only folder has no room for the log's index; without a log there is
        # nothing to miss.
        connection.close()
        if wal_bytes(path):
            raise
        connection = sqlite3.connect(
            f"{uri}&immutable=1", uri=True, isolation_level=None
        )
        views = connection.execute(_VIEWS).fetchall()
    if views:
        connection.close()
        raise DifferenceFound(f"{path}: {views[0][0][:40]!r} is no table of its own")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_CELL_BYTES)
    connection.execute(f"pragma busy_timeout = {_BUSY_TIMEOUT_MS}")
    connection.execute("pragma query_only = 1")
    return connection


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


def engine_facts(connection: Connection) -> dict[str, str]:
    """Return what a person asks a database file about: version, durability, size."""
    pages = connection.exec_driver_sql("pragma page_count").scalar_one()
    page_bytes = connection.exec_driver_sql("pragma page_size").scalar_one()
    return {
        "engine": f"SQLite {sqlite3.sqlite_version}",
        "journal": str(connection.exec_driver_sql("pragma journal_mode").scalar_one()),
        "bytes": str(pages * page_bytes),
    }


def integrity_problem(connection: Connection, *, is_full: bool) -> str | None:
    """Return the first thing wrong with the file, by SQLite's own check; None if none.

    Args:
        connection: an open read transaction.
        is_full: compare indices and foreign keys as well, which reads everything.
    """
    check = "integrity_check" if is_full else "quick_check"
    found = str(connection.exec_driver_sql(f"pragma {check}(1)").scalar_one())
    if found != "ok":
        return " ".join(found.split())  # of several lines
    broken = connection.exec_driver_sql("pragma foreign_key_check").first()
    return None if broken is None else f"a row of {broken[0]} refers to nothing"
