"""Moving the books: into PostgreSQL and back, one database counting at any moment."""

import pytest
from sqlalchemy import update

from ledger import moving
from ledger.audit import verify_ledger
from ledger.database import LedgerFolder, Reader
from ledger.errors import FolderInUse, LedgerError, NoLedger, TargetNotEmpty
from ledger.moving import copy_ledger, migrate_ledger, switch_to_sqlite
from ledger.schema import SCHEMA_VERSION, schema_version
from tests.support.ledger_commands import world_with_vouchers


@pytest.fixture
def url(postgres_server):
    return postgres_server.new_database("template1")


def test_into_postgresql_and_back(tmp_path, url):
    world = world_with_vouchers(tmp_path)
    folder = LedgerFolder(tmp_path)
    there = copy_ledger(tmp_path, url, is_switch=True)
    assert not folder.database.exists()
    assert (tmp_path / "ledger.sqlite3.moved").exists()
    assert not list(tmp_path.glob("*-wal"))
    verify_ledger(Reader(tmp_path), world.identity)
    with world.open(tmp_path) as store:
        assert store.grant(world.order()).result(60)
    back = switch_to_sqlite(tmp_path)
    assert back.rows > there.rows
    assert not folder.database_url.exists()
    assert (tmp_path / "database.url.moved").exists()
    verify_ledger(Reader(tmp_path), world.identity)
    with pytest.raises(TargetNotEmpty):
        switch_to_sqlite(tmp_path)
    with pytest.raises(TargetNotEmpty):  # what was left there is not written over
        copy_ledger(tmp_path, url, is_switch=True)


def test_a_copy_of_a_running_ledger_changes_nothing_for_it(tmp_path, url):
    world = world_with_vouchers(tmp_path)
    with world.open(tmp_path) as store:
        with pytest.raises(FolderInUse):
            copy_ledger(tmp_path, url, is_switch=True)
        with pytest.raises(FolderInUse):
            switch_to_sqlite(tmp_path)
        assert copy_ledger(tmp_path, url, is_switch=False).rows
        assert store.grant(world.order()).result(60)
    assert not LedgerFolder(tmp_path).database_url.exists()


def test_a_copy_cut_short_changes_nothing(tmp_path, url, monkeypatch):
    world = world_with_vouchers(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(moving, "copy_database", full)
    with pytest.raises(LedgerError, match="No space left"):
        copy_ledger(tmp_path, url, is_switch=True)
    verify_ledger(Reader(tmp_path), world.identity)
    monkeypatch.undo()
    copy_ledger(tmp_path, url, is_switch=True)
    monkeypatch.setattr(moving, "copy_database", full)
    (tmp_path / "ledger.sqlite3.moved").unlink()
    with pytest.raises(LedgerError, match="No space left"):
        switch_to_sqlite(tmp_path)
    assert list(tmp_path.glob("ledger.sqlite3*")) == []
    verify_ledger(Reader(tmp_path), world.identity)


def test_names_of_what_was_left_are_never_used_twice(tmp_path):
    for content in (b"first", b"second"):
        (tmp_path / "database.url").write_bytes(content)
        moving._set_aside(tmp_path / "database.url")
    assert (tmp_path / "database.url.moved").read_bytes() == b"first"
    assert (tmp_path / "database.url.moved1").read_bytes() == b"second"


def test_migrate_says_from_where_to_where(ledger_database):
    world = world_with_vouchers(ledger_database)
    assert migrate_ledger(ledger_database) == (SCHEMA_VERSION, SCHEMA_VERSION)
    with world.open(ledger_database) as store:
        with pytest.raises(FolderInUse):
            migrate_ledger(ledger_database)
        newer = update(schema_version).values(version=SCHEMA_VERSION + 1)
        store._writer.submit(lambda desk: desk.connection.execute(newer)).result(60)
    with pytest.raises(LedgerError, match="newer"):
        migrate_ledger(ledger_database)
    with pytest.raises(LedgerError, match=f"this program reads {SCHEMA_VERSION}"):
        Reader(ledger_database)


def test_there_is_nothing_to_migrate_or_move(tmp_path, url):
    with pytest.raises(NoLedger):
        migrate_ledger(tmp_path)
    with pytest.raises(NoLedger):
        copy_ledger(tmp_path, url, is_switch=True)
