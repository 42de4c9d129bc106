"""The database: one writer, BEGIN IMMEDIATE, readers beside it, one-line errors."""

import contextlib
import dataclasses
import sqlite3
import sys
import threading

import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from ledger.database import (
    FolderLock,
    LedgerFolder,
    Reader,
    open_writing_engine,
    store_error,
    writing_engine,
)
from ledger.errors import DifferenceFound, FolderInUse, StoreBusy, StoreUnavailable
from tests.support.ledger_world import Party, World


def test_one_process_writes_a_folder(tmp_path):
    lock = FolderLock(tmp_path / "a" / "lock")
    with pytest.raises(FolderInUse):
        FolderLock(tmp_path / "a" / "lock")
    lock.release()
    FolderLock(tmp_path / "a" / "lock").release()
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable):
        FolderLock(tmp_path / "file" / "lock")


@pytest.mark.skipif(sys.platform == "win32", reason="an open file stays there")
def test_who_deletes_the_lock_file_lets_nobody_in(tmp_path):
    """A second writer cuts off the leaves that the first one acknowledged."""
    lock = FolderLock(tmp_path / "ledger.lock")
    (tmp_path / "ledger.lock").unlink()
    with pytest.raises(FolderInUse):
        FolderLock(tmp_path / "ledger.lock")
    lock.release()
    FolderLock(tmp_path / "ledger.lock").release()


def test_the_writer_is_durable_and_begins_immediately(tmp_path):
    folder = LedgerFolder(tmp_path)
    engine = open_writing_engine(folder, World().identity)
    statements = []
    with engine.connect() as connection:
        raw = connection.connection.dbapi_connection
        raw.set_trace_callback(statements.append)
        with connection.begin():
            assert connection.exec_driver_sql("pragma synchronous").scalar() == 2
            assert connection.exec_driver_sql("pragma journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("pragma foreign_keys").scalar() == 1
    assert statements[0].lower() == "begin immediate"
    engine.dispose()


def test_b35_a_writer_waits_where_a_deferred_one_fails_at_once(tmp_path):
    folder = LedgerFolder(tmp_path)
    engine = open_writing_engine(folder, World().identity)
    other = sqlite3.connect(folder.database, isolation_level=None, timeout=5)
    # The fault itself: read, somebody else writes, write.
    deferred = sqlite3.connect(folder.database, isolation_level=None, timeout=5)
    deferred.execute("begin")
    deferred.execute("select * from identity").fetchall()
    with engine.begin() as connection:
        connection.execute(text("insert into leaf_file values (1, 0)"))
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        deferred.execute("insert into leaf_file values (2, 0)")
    deferred.close()
    # Ours waits for its turn.
    other.execute("begin immediate")
    done = threading.Event()

    def write() -> None:
        with engine.begin() as connection:
            connection.execute(text("insert into leaf_file values (3, 0)"))
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not done.wait(0.05)
    other.execute("commit")
    other.close()
    thread.join(60)
    assert done.is_set()
    engine.dispose()


def test_a_folder_belongs_to_one_ledger(tmp_path):
    identity = World().identity
    open_writing_engine(LedgerFolder(tmp_path), identity).dispose()
    open_writing_engine(LedgerFolder(tmp_path), identity).dispose()
    for name in ("network", "ledger", "market"):
        other = dataclasses.replace(identity, **{name: Party("other").id})
        with pytest.raises(StoreUnavailable, match=f"is of {name}"):
            open_writing_engine(LedgerFolder(tmp_path), other)


@pytest.mark.parametrize("name", ["leaves/00000001.leaves", "log/checkpoint"])
def test_a_database_that_went_is_not_begun_anew(tmp_path, name):
    """The writer cuts off leaves that its database does not know."""
    identity = World().identity
    path = tmp_path / name
    path.parent.mkdir()
    path.write_bytes(b"kept")
    with pytest.raises(StoreUnavailable, match="is empty, but there is"):
        open_writing_engine(LedgerFolder(tmp_path), identity)
    assert path.read_bytes() == b"kept"
    path.write_bytes(b"")
    open_writing_engine(LedgerFolder(tmp_path), identity).dispose()


def test_readers_only_read(tmp_path):
    world = World()
    with pytest.raises(StoreUnavailable, match="no ledger"):
        Reader(tmp_path)
    engine = open_writing_engine(LedgerFolder(tmp_path), world.identity)
    reader = Reader(tmp_path)
    assert reader.identity == world.identity
    with pytest.raises(StoreUnavailable):
        with reader.session() as connection:
            connection.execute(text("insert into leaf_file values (1, 0)"))
    with reader.session() as early:
        assert early.execute(text("select count(*) from leaf_file")).scalar() == 0
        with engine.begin() as connection:
            connection.execute(text("insert into leaf_file values (1, 0)"))
        # One session sees one moment.
        assert early.execute(text("select count(*) from leaf_file")).scalar() == 0
    engine.dispose()
    with reader.session() as late:
        assert late.execute(text("select count(*) from leaf_file")).scalar() == 1


def test_a_read_only_folder_is_readable(tmp_path, monkeypatch):
    open_writing_engine(LedgerFolder(tmp_path), World().identity).dispose()
    real = sqlite3.connect

    class ReadOnlyFolder:
        """As SQLite behaves where it cannot make the log's index."""

        def __init__(self, connection):
            self._connection = connection

        def execute(self, statement):
            raise sqlite3.OperationalError("unable to open database file")

        def close(self):
            self._connection.close()

    def connect(path, **options):
        connection = real(path, **options)
        return connection if "immutable" in str(path) else ReadOnlyFolder(connection)

    monkeypatch.setattr(sqlite3, "connect", connect)
    assert Reader(tmp_path).identity == World().identity
    (tmp_path / "ledger.sqlite3-wal").write_bytes(b"not written back yet")
    with pytest.raises(StoreUnavailable, match="unable to open"):
        Reader(tmp_path)


def test_no_database_and_other_schemas_are_one_line(tmp_path):
    (tmp_path / "ledger.sqlite3").write_bytes(b"this is no database at all" * 100)
    for attempt in (
        lambda: Reader(tmp_path),
        lambda: open_writing_engine(LedgerFolder(tmp_path), World().identity),
    ):
        with pytest.raises(StoreUnavailable, match="not a database") as caught:
            attempt()
        assert "\n" not in str(caught.value)


def test_faults_are_translated(tmp_path):
    folder = LedgerFolder(tmp_path)
    full = OperationalError("x", {}, sqlite3.OperationalError("database is full"))
    locked = OperationalError("x", {}, sqlite3.OperationalError("database is locked"))
    assert type(store_error(full, folder)) is StoreUnavailable
    assert type(store_error(locked, folder)) is StoreBusy
    refused = OperationalError("SELECT", {}, OSError("no such host"))
    assert "database is up" in store_error(refused, folder).advice
    error = store_error(OSError(28, "No space left on device"), folder)
    assert str(error).endswith("No space left on device")


def test_a_ledger_of_no_owner_or_two_is_a_difference(ledger_database):
    world = World()
    world.open(ledger_database).close()
    folder = LedgerFolder(ledger_database)
    engine = writing_engine(folder)
    with engine.begin() as connection:
        connection.execute(text("insert into identity select * from identity"))
    engine.dispose()
    for attempt in (Reader, world.open):
        with pytest.raises(DifferenceFound, match="names 2 owners"):
            attempt(ledger_database)
    engine = writing_engine(folder)
    with engine.begin() as connection:
        connection.execute(text("delete from identity"))
    engine.dispose()
    with pytest.raises(DifferenceFound, match="names 0 owners"):
        Reader(ledger_database)


def test_bytes_marked_as_text_are_a_difference(tmp_path, only_sqlite):
    world = World()
    world.open(tmp_path).close()
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite3")) as books:
        books.execute("update identity set market = cast(x'1bff' as text)")
        books.commit()
    with pytest.raises(DifferenceFound, match="market"):
        Reader(tmp_path)
