"""Migrations: new, old, newer."""

import contextlib
import sqlite3
from hashlib import sha256
from pathlib import Path

import pytest
from sqlalchemy import create_engine, update

from ledger import migrations
from ledger.audit import verify_ledger
from ledger.backup import restore_backup
from ledger.backup_files import BackupList, FileEntry
from ledger.database import Reader
from ledger.errors import BackupRefused, StoreUnavailable
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


def put_first_schema(path: Path, *more: str) -> None:
    """Write the database of a ledger as the first schema had it."""
    dump = Path(__file__).with_name("ledger_of_schema_1.sql").read_text("utf-8")
    with contextlib.closing(sqlite3.connect(path)) as old:
        old.executescript(dump)
        for statement in more:
            old.execute(statement)
        old.commit()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ((), None),
        (
            (
                "create trigger thief after insert on transfer begin "
                "update account set credits_uc = 0; end",
            ),
            "thief is no trigger",
        ),
        (("drop trigger transfer_no_update",), "transfer_no_update is missing"),
        (("create view closing as select 1 as voucher_id",), "no table of its own"),
    ],
)
def test_a_backup_of_the_first_schema_has_its_triggers_and_no_others(
    tmp_path, more, told
):
    backup = tmp_path / "backup"
    backup.mkdir()
    put_first_schema(backup / "ledger.sqlite3", *more)
    raw = (backup / "ledger.sqlite3").read_bytes()
    files = {"ledger.sqlite3": FileEntry(len(raw), sha256(raw).digest())}
    listed = BackupList(schema=1, taken_us=1, files=files)
    (backup / "backup.json").write_bytes(listed.pack())
    if told is None:
        assert restore_backup(backup, tmp_path / "books").schema == 1
        return
    with pytest.raises(BackupRefused, match=told):
        restore_backup(backup, tmp_path / "books")


def test_a_ledger_of_the_first_schema_goes_on(tmp_path):
    put_first_schema(tmp_path / "ledger.sqlite3")
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
        world.now_us += 3_600_000_000
        assert store.tend().grants_released == 1
        report = verify_ledger(store.reader(), world.identity)
    assert (report.closings, report.log_entries) == (1, 1)
