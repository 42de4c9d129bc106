"""Migrations: new, old, newer."""

import contextlib
import sqlite3
from pathlib import Path

import pytest
from sqlalchemy import create_engine, update

from ledger import migrations
from ledger.audit import verify_ledger
from ledger.database import Reader
from ledger.errors import StoreUnavailable
from ledger.migrations import migrate, stored_version
from ledger.moving import migrate_ledger
from ledger.schema import SCHEMA_VERSION, schema_version
from tests.support.ledger_world import World, paper_tab


@pytest.fixture
def engine():
    engine = create_engine("sqlite://")
    yield engine
    engine.dispose()


def test_a_new_database_is_current_and_stays_so(engine):
    with engine.begin() as connection:
        assert stored_version(connection) == 0
        migrate(connection)
        migrate(connection)
        assert stored_version(connection) == SCHEMA_VERSION


def test_a_newer_database_is_refused(engine):
    with engine.begin() as connection:
        migrate(connection)
        connection.execute(update(schema_version).values(version=SCHEMA_VERSION + 1))
        with pytest.raises(StoreUnavailable, match="newer"):
            migrate(connection)


@pytest.mark.parametrize(
    "change",
    [
        "delete from schema_version",
        "insert into schema_version values (1)",
        "update schema_version set version = 0",
        "update schema_version set version = 'two'",
    ],
)
def test_a_version_that_is_none_is_one_line(engine, change):
    with engine.begin() as connection:
        migrate(connection)
        connection.exec_driver_sql(change)
        with pytest.raises(StoreUnavailable, match="says that its schema is"):
            migrate(connection)


def test_an_older_database_gets_the_steps_it_lacks_in_order(engine, monkeypatch):
    with engine.begin() as connection:
        migrate(connection)
        done = []
        steps = {SCHEMA_VERSION + n: lambda _, n=n: done.append(n) for n in (1, 2)}
        monkeypatch.setattr(migrations, "STEPS", steps)
        monkeypatch.setattr(migrations, "SCHEMA_VERSION", SCHEMA_VERSION + 2)
        migrate(connection)
        assert done == [1, 2]
        assert stored_version(connection) == SCHEMA_VERSION + 2


def test_there_is_a_step_for_every_version_after_the_first():
    assert sorted(migrations.STEPS) == list(range(2, SCHEMA_VERSION + 1))


def test_a_ledger_of_the_first_schema_goes_on(tmp_path):
    dump = Path(__file__).with_name("ledger_of_schema_1.sql").read_text("utf-8")
    with contextlib.closing(sqlite3.connect(tmp_path / "ledger.sqlite3")) as old:
        old.executescript(dump)
    leaves = b"".join(paper_tab().leaf(n) for n in range(3))
    (tmp_path / "leaves").mkdir()
    (tmp_path / "leaves" / "00000001.leaves").write_bytes(leaves)
    with pytest.raises(StoreUnavailable, match="schema 1") as caught:
        Reader(tmp_path)
    assert "ledger migrate" in caught.value.advice
    assert migrate_ledger(tmp_path) == (1, SCHEMA_VERSION)
    world = World()
    assert verify_ledger(Reader(tmp_path), world.identity).receipts == 3
    world.now_us += 90 * 24 * 3_600_000_000
    with world.open(tmp_path) as store:
        assert store.tend().grants_released == 1
        report = verify_ledger(store.reader(), world.identity)
    assert (report.closings, report.log_entries) == (1, 1)
