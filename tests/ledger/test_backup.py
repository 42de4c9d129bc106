"""Backups: taken while the ledger runs, whole or not at all, put back as they were."""

import os
import shutil
import sqlite3
import threading

import pytest
from sqlalchemy import select, update

from ledger import backup as module
from ledger.audit import verify_ledger
from ledger.backup import restore_backup, take_backup
from ledger.claims import FiledStatus
from ledger.database import LedgerFolder, Reader
from ledger.errors import (
    BackupRefused,
    FolderInUse,
    NoLedger,
    StoreUnavailable,
    TargetNotEmpty,
)
from ledger.leaf_files import mark_pruned
from ledger.schema import SCHEMA_VERSION, schema_version, voucher
from tests.support.ledger_commands import world_with_vouchers
from tests.support.ledger_world import World


@pytest.fixture(params=["backup", "backup.tar"])
def target(request, tmp_path):
    """Where a backup goes: a folder, a file."""
    return tmp_path / request.param


@pytest.fixture
def ledger(tmp_path):
    """A small ledger in SQLite, for what does not depend on the database."""
    world_with_vouchers(tmp_path / "ledger")
    return tmp_path / "ledger"


def add_log(folder) -> None:
    """Files of a log as the publisher leaves them, and one that is none of its."""
    tile = folder / "log" / "tile" / "0" / "000.p" / "3"
    tile.parent.mkdir(parents=True)
    tile.write_bytes(b"hashes")
    (folder / "log" / "checkpoint").write_bytes(b"a note")
    (folder / "log" / "checkpoint.new").write_bytes(b"half a no")
    (folder / "witnesses").write_bytes(b"a key")


def test_what_was_taken_is_put_back(ledger_database, target, tmp_path):
    world = world_with_vouchers(ledger_database)
    add_log(ledger_database)
    taken = take_backup(ledger_database, target, 77)
    assert {p.name for p in tmp_path.iterdir()} == {"ledger", target.name}
    assert target.stat().st_mode & 0o077 == 0
    restored = restore_backup(target, tmp_path / "again")
    assert taken == restored
    assert (restored.taken_us, restored.schema) == (77, SCHEMA_VERSION)
    log = tmp_path / "again" / "log"
    assert (log / "tile/0/000.p/3").read_bytes() == b"hashes"
    assert sorted(p.name for p in log.iterdir()) == ["checkpoint", "tile"]
    assert (log.parent / "witnesses").read_bytes() == b"a key"
    shutil.rmtree(log)
    (log.parent / "witnesses").unlink()
    verify_ledger(Reader(tmp_path / "again"), world.identity)
    with world.open(tmp_path / "again") as store:
        assert store.grant(world.order()).result(60)


def test_a_backup_folder_is_a_ledger_folder(ledger_database, tmp_path):
    world = world_with_vouchers(ledger_database)
    take_backup(ledger_database, tmp_path / "backup", 0)
    verify_ledger(Reader(tmp_path / "backup"), world.identity)


def test_it_is_one_moment_while_vouchers_come(tmp_path):
    """What is filed meanwhile is in it or not, leaves and rows alike."""
    world = world_with_vouchers(tmp_path / "ledger")
    with world.open(tmp_path / "ledger") as store:
        tab = world.tab(store.grant(world.order()).result(60), tab=b"tab-busy")
        ready, over = threading.Event(), threading.Event()

        def write() -> None:
            n = 0
            while not over.is_set():
                assert tab.file(store, n).status is FiledStatus.STORED
                n += 1
                ready.set()

        thread = threading.Thread(target=write)
        thread.start()
        assert ready.wait(60)
        try:
            take_backup(tmp_path / "ledger", tmp_path / "b.tar", 0)
        finally:
            over.set()
            thread.join()
    restore_backup(tmp_path / "b.tar", tmp_path / "again")
    verify_ledger(Reader(tmp_path / "again"), world.identity)
    with Reader(tmp_path / "again").session() as connection:
        assert connection.execute(select(voucher.c.id)).all()


def test_a_file_pruned_meanwhile_is_another_try(ledger, tmp_path, monkeypatch):
    real, tries = module._take_database, []

    def slow(folder, snapshot):
        real(folder, snapshot)
        tries.append(folder)
        if len(tries) == 1:
            (folder.leaves / "00000001.leaves").rename(tmp_path / "kept")
        else:
            mark_pruned(folder.leaves, 1, bytes(32))

    monkeypatch.setattr(module, "_take_database", slow)
    take_backup(ledger, tmp_path / "backup", 0)
    assert len(tries) == 2
    assert (tmp_path / "backup/leaves/00000001.pruned").exists()


def test_leaves_that_are_gone_are_no_backup(ledger, target, tmp_path):
    (ledger / "leaves/00000001.leaves").unlink()
    with pytest.raises(StoreUnavailable, match="leaf file 1 is missing"):
        take_backup(ledger, target, 0)
    assert [p.name for p in tmp_path.iterdir()] == ["ledger"]


def test_a_full_disk_leaves_nothing_behind(ledger, target, tmp_path, monkeypatch):
    world = World()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="No space left") as caught:
        take_backup(ledger, target, 0)
    monkeypatch.undo()
    assert "\n" not in str(caught.value)
    assert [p.name for p in tmp_path.iterdir()] == ["ledger"]
    take_backup(ledger, target, 0)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        restore_backup(target, tmp_path / "again")
    monkeypatch.undo()
    assert not LedgerFolder(tmp_path / "again").holds_ledger
    restore_backup(target, tmp_path / "again")
    verify_ledger(Reader(tmp_path / "again"), world.identity)


def test_nothing_is_written_over(ledger, target, tmp_path):
    world = World()
    take_backup(ledger, target, 0)
    with pytest.raises(TargetNotEmpty):
        take_backup(ledger, target, 0)
    with pytest.raises(TargetNotEmpty):
        restore_backup(target, ledger)
    with world.open(ledger), pytest.raises(FolderInUse):
        restore_backup(target, ledger)
    (tmp_path / "again").mkdir()
    (tmp_path / "again" / "ledger.sqlite3-wal").write_bytes(b"of a database gone")
    with pytest.raises(TargetNotEmpty, match="wal"):
        restore_backup(target, tmp_path / "again")


def test_no_ledger_and_no_backup(tmp_path):
    with pytest.raises(NoLedger):
        take_backup(tmp_path, tmp_path / "backup", 0)
    with pytest.raises(BackupRefused, match="no backup"):
        restore_backup(tmp_path / "nowhere", tmp_path / "again")


def test_a_newer_database_is_neither_taken_nor_put_back(tmp_path):
    world = world_with_vouchers(tmp_path / "ledger")
    take_backup(tmp_path / "ledger", tmp_path / "backup", 0)
    with world.open(tmp_path / "ledger") as store:
        newer = update(schema_version).values(version=SCHEMA_VERSION + 1)
        store._writer.submit(lambda desk: desk.connection.execute(newer)).result(60)
    with pytest.raises(StoreUnavailable, match="newer"):
        take_backup(tmp_path / "ledger", tmp_path / "backup2", 0)
    copy = sqlite3.connect(tmp_path / "backup" / "ledger.sqlite3")
    copy.execute("update schema_version set version = 99")
    copy.commit()
    copy.close()
    with pytest.raises(BackupRefused, match="not as listed"):
        restore_backup(tmp_path / "backup", tmp_path / "again")
