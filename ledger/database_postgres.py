"""The ledger's database in PostgreSQL, by psycopg 3.

Contract: one connection writes. It holds an advisory lock of its session, so that two
processes never write one ledger, whichever machines they run on; the lock goes with the
connection, and a connection made anew after a fault must get it again. A commit waits
for the disk whatever the server's default is. Readers get repeatable-read, read-only
transactions: one moment of the database. Sums of BIGINT come as PostgreSQL's numeric;
they are read as integers, and a fraction is refused, so that no Decimal meets money.
Sources: PostgreSQL 15 manual, 9.27.10 (advisory locks), 20.5 (synchronous_commit).
"""

import functools

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry, NullPool, QueuePool

from ledger.errors import DatabaseUrlRefused, FolderInUse, StoreUnavailable

__all__ = ["engine_facts", "reading_engine", "writing_engine"]

_CONNECT_TIMEOUT_S = 10
_POOL_WAIT_S = 5  # there is one connection, and the writer has it
_LOCK_TIMEOUT_MS = 5000
_OFF = frozenset({"off", "local"})
_LOCK_WAIT_MS = 1000  # a process that just ended: its server may not know yet
# Of the database and its schema: another ledger in the same database has another key.
_TAKE_LOCK = (
    "select pg_advisory_lock(hashtextextended('p2pmoe ledger ' || current_schema(), 0))"
)
_LOCK_NOT_AVAILABLE = "55P03"


def writing_engine(url: URL) -> Engine:
    """Return an engine with one connection, which holds the writer's lock.

    Connecting raises `FolderInUse` where another process holds it.

    Raises:
        StoreUnavailable: psycopg is not installed, or the URL cannot be used.
    """
    engine = _engine(
        url, poolclass=QueuePool, pool_size=1, max_overflow=0, pool_timeout=_POOL_WAIT_S
    )
    event.listen(engine, "connect", _read_numbers_as_integers)
    event.listen(engine, "connect", _set_up_writer)
    return engine


def reading_engine(url: URL) -> Engine:
    """Return an engine whose every transaction is one read-only moment.

    Raises:
        StoreUnavailable: psycopg is not installed.
    """
    engine = _engine(
        url,
        poolclass=NullPool,
        isolation_level="REPEATABLE READ",
        execution_options={"postgresql_readonly": True},
    )
    event.listen(engine, "connect", _read_numbers_as_integers)
    return engine


def _engine(url: URL, **options: object) -> Engine:
    query = {"connect_timeout": str(_CONNECT_TIMEOUT_S), **url.query}
    try:
        return create_engine(url.set(query=query), **options)
    except ArgumentError as exc:
        raise DatabaseUrlRefused("database URL: its host or port is none") from exc
    except ModuleNotFoundError as exc:
        error = StoreUnavailable("a ledger in PostgreSQL needs the package psycopg")
        error.advice = "Install it: pip install 'p2pmoe[postgres]'"
        raise error from exc


def _read_numbers_as_integers(
    connection: DBAPIConnection, _: ConnectionPoolEntry
) -> None:
    connection.adapters.register_loader("numeric", _loader_of_whole_numbers())


@functools.cache
def _loader_of_whole_numbers() -> type:
    from psycopg.adapt import Loader  # noqa: PLC0415  an extra, and slow to load

    class WholeNumber(Loader):
        """Loads PostgreSQL's numeric; a fraction raises ValueError."""

        def load(self, data: bytes | bytearray | memoryview) -> int:
            return int(bytes(data))

    return WholeNumber


def _set_up_writer(connection: DBAPIConnection, _: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    try:
        _take_lock(cursor)
        cursor.execute("show synchronous_commit")
        if _only(cursor.fetchone()) in _OFF:
            cursor.execute("set synchronous_commit = on")
        cursor.execute(f"set lock_timeout = {_LOCK_TIMEOUT_MS}")
    finally:
        cursor.close()
    connection.commit()


def _take_lock(cursor: DBAPICursor) -> None:
    """Take the writer's lock for as long as the connection lives."""
    cursor.execute(f"set lock_timeout = {_LOCK_WAIT_MS}")
    try:
        cursor.execute(_TAKE_LOCK)
    except Exception as exc:
        if getattr(exc, "sqlstate", None) != _LOCK_NOT_AVAILABLE:
            raise
        raise FolderInUse("another process writes this ledger's database") from exc


def _only(row: object) -> object:
    """Return the one value of a one-row answer."""
    return row[0] if isinstance(row, tuple) and row else None


def engine_facts(connection: Connection) -> dict[str, str]:
    """Return what a person asks a server about: version, durability, size, readers."""
    names = ("fsync", "full_page_writes", "synchronous_commit", "data_checksums")
    shown = {
        name: str(connection.exec_driver_sql(f"show {name}").scalar_one())
        for name in names
    }
    version = connection.exec_driver_sql("show server_version").scalar_one()
    n_bytes = "select pg_database_size(current_database())"
    oldest_s = (
        "select coalesce(extract(epoch from max(now() - xact_start))::bigint, 0) "
        "from pg_stat_activity where datname = current_database()"
    )
    return {
        "engine": f"PostgreSQL {version}",
        **shown,
        "bytes": str(connection.exec_driver_sql(n_bytes).scalar_one()),
        "oldest_transaction_s": str(connection.exec_driver_sql(oldest_s).scalar_one()),
    }
