"""PostgreSQL: one writer anywhere, whole numbers, read-only moments, faults."""

import shutil
import sys

import pytest
from sqlalchemy import func, insert, literal_column, select, text
from sqlalchemy.exc import DBAPIError

from ledger import database_postgres
from ledger.claims import FiledStatus
from ledger.database import LedgerFolder, Reader, open_writing_engine, store_error
from ledger.database_postgres import reading_engine, writing_engine
from ledger.database_url import write_url
from ledger.errors import DatabaseUrlRefused, FolderInUse, StoreBusy, StoreUnavailable
from ledger.schema import leaf_file
from tests.support.ledger_world import World

HIDDEN = "open sesame"


@pytest.fixture
def url(postgres_server):
    return postgres_server.new_database()


def test_one_process_writes_a_database_whatever_its_folder(tmp_path, url, monkeypatch):
    monkeypatch.setattr(database_postgres, "_LOCK_WAIT_MS", 50)
    world = World()
    for name in ("here", "elsewhere"):
        (tmp_path / name).mkdir()
        write_url(tmp_path / name / "database.url", url)
    with world.open(tmp_path / "here"):
        with pytest.raises(FolderInUse, match="database"):
            world.open(tmp_path / "elsewhere")
    world.open(tmp_path / "elsewhere").close()


def test_sums_are_whole_numbers_of_any_size(url):
    engine = writing_engine(url)
    with engine.begin() as connection:
        rows = [{"number": n, "length_bytes": 2**63 - 1} for n in range(3)]
        connection.execute(insert(leaf_file), rows)
        total = connection.execute(select(func.sum(leaf_file.c.length_bytes))).scalar()
    assert total == 3 * (2**63 - 1)
    assert type(total) is int
    with engine.connect() as connection:
        with pytest.raises((DBAPIError, ValueError)):
            connection.execute(select(literal_column("0.1::numeric"))).scalar()
    engine.dispose()


def test_a_commit_waits_for_the_disk_whatever_the_server_says(url):
    weak = url.update_query_dict({"options": "-csynchronous_commit=off"})
    engine = writing_engine(weak)
    with engine.connect() as connection:
        assert connection.execute(text("show synchronous_commit")).scalar() == "on"
    engine.dispose()


def test_readers_only_read_and_see_one_moment(url):
    reader, writer = reading_engine(url), writing_engine(url)
    count = select(func.count()).select_from(leaf_file)
    with reader.connect() as early:
        assert early.execute(count).scalar() == 0
        with writer.begin() as connection:
            connection.execute(insert(leaf_file).values(number=1, length_bytes=0))
        assert early.execute(count).scalar() == 0
        with pytest.raises(DBAPIError, match="read-only"):
            early.execute(insert(leaf_file).values(number=2, length_bytes=0))
    with reader.connect() as late:
        assert late.execute(count).scalar() == 1
    writer.dispose()


def cut_connections(server, path) -> None:
    """End every other connection to a ledger's database, as a restart does."""
    with server.connect(Reader(path)._engine.url.database) as other:
        other.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity "
            "where datname = current_database() and pid <> pg_backend_pid()"
        )


def test_a_lost_connection_fails_one_group_and_nothing_acknowledged(
    postgres_server, tmp_path
):
    world = World()
    path = postgres_server.prepare(tmp_path / "ledger")
    with world.open(path) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        assert tab.file(store, 0).status is FiledStatus.STORED
        signed, block = tab.next(1)
        cut_connections(postgres_server, path)
        with pytest.raises(StoreUnavailable) as caught:
            store.file(signed, block, b"f" * 32).result(60)
        assert "\n" not in str(caught.value)
        # The next group connects again, takes the lock again, and goes on.
        assert store.file(signed, block, b"f" * 32).result(60).status == 0


def test_a_writer_that_lost_its_lock_to_another_writes_nothing(
    postgres_server, tmp_path, monkeypatch
):
    monkeypatch.setattr(database_postgres, "_LOCK_WAIT_MS", 50)
    world = World()
    path = postgres_server.prepare(tmp_path / "here")
    with world.open(path) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        signed, block = tab.next(0)
        cut_connections(postgres_server, path)
        (tmp_path / "there").mkdir()
        shutil.copy(path / "database.url", tmp_path / "there")
        with world.open(tmp_path / "there"):
            for error in (StoreUnavailable, FolderInUse):
                with pytest.raises(error):
                    store.file(signed, block, b"f" * 32).result(60)
        assert store.file(signed, block, b"f" * 32).result(60).status == 0


def test_what_is_locked_may_be_tried_again(url, tmp_path):
    quick = url.update_query_dict({"options": "-clock_timeout=1"})
    engine, other = reading_engine(quick), writing_engine(url)
    with other.begin() as connection:
        connection.execute(text("lock table leaf_file in access exclusive mode"))
        with engine.connect() as waiting, pytest.raises(DBAPIError) as caught:
            waiting.execute(select(leaf_file))
    assert type(store_error(caught.value, LedgerFolder(tmp_path))) is StoreBusy
    other.dispose()


def test_a_server_that_is_not_there_is_one_line(tmp_path, url):
    gone = url.update_query_dict({"host": str(tmp_path / "nowhere")})
    write_url(tmp_path / "database.url", gone.set(password=HIDDEN))
    for attempt in (
        lambda: Reader(tmp_path),
        lambda: open_writing_engine(LedgerFolder(tmp_path), World().identity),
    ):
        with pytest.raises(StoreUnavailable, match="connection") as caught:
            attempt()
        assert "\n" not in str(caught.value)
        assert HIDDEN not in str(caught.value)


def test_a_port_that_is_none_is_one_line(tmp_path):
    (tmp_path / "database.url").write_text(f"postgresql://u:{HIDDEN}@h/d?port=abc")
    (tmp_path / "database.url").chmod(0o600)
    with pytest.raises(DatabaseUrlRefused, match="host or port") as caught:
        Reader(tmp_path)
    assert HIDDEN not in str(caught.value)


def test_without_psycopg_it_says_what_to_install(url, monkeypatch):
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreUnavailable, match="psycopg") as caught:
        reading_engine(url)
    assert "p2pmoe[postgres]" in caught.value.advice


def test_an_empty_database_holds_no_ledger(postgres_server, tmp_path):
    write_url(tmp_path / "database.url", postgres_server.new_database("template1"))
    with pytest.raises(StoreUnavailable, match="no tables"):
        Reader(tmp_path)
    world = World()
    world.open(tmp_path).close()  # the first to write makes them
    assert Reader(tmp_path).identity == world.identity
