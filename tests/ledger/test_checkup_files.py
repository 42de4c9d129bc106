"""The checkup of files: room, leaf files, tiles of the log."""

import shutil
from types import SimpleNamespace

import pytest

from ledger import checkup_files, leaf_files
from ledger.checkup_files import Severity, check_files
from ledger.database import Reader
from ledger.leaf_files import leaf_path, packed_path
from tests.support.ledger_world import World


@pytest.fixture
def ledger(tmp_path, monkeypatch):
    """Two leaf files, one packed; three closed vouchers in the log."""
    monkeypatch.setattr(leaf_files, "_FILE_BYTES", 100)
    world = World()
    with world.open(tmp_path) as store:
        for n in range(3):
            issued = store.grant(world.order()).result(60)
            world.tab(issued, tab=b"tab-%04d" % n).file(store, 0, 1, final=True)
        store.tend()
        store.retain()
    return tmp_path


def look(path, *, is_full=False):
    reader = Reader(path)
    with reader.session() as connection:
        findings = list(check_files(reader, connection, is_full=is_full))
    return {f.check: (f.severity, f.detail) for f in findings}


@pytest.mark.parametrize("is_full", [False, True])
def test_sound_files(ledger, is_full):
    found = look(ledger, is_full=is_full)
    assert {severity for severity, _ in found.values()} == {Severity.OK}
    assert found["leaf files"][1] == "1 plain, 2 packed, 0 pruned; 474 bytes of leaves"
    assert found["log"][1] == "3 of 3 entries are published"


@pytest.mark.parametrize(
    ("free", "severity"),
    [(1 << 40, "ok"), (1 << 29, "warning"), (1 << 20, "fault")],
)
def test_room_on_the_disk(ledger, monkeypatch, free, severity):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert look(ledger)["disk"][0] == severity


def test_a_read_only_folder_and_two_databases_are_warnings(ledger, monkeypatch):
    monkeypatch.setattr(checkup_files.os, "access", lambda *_: False)
    assert "read-only" in look(ledger)["folder"][1]
    monkeypatch.undo()
    reader = Reader(ledger)
    (ledger / "database.url").write_text("postgresql:///elsewhere")
    with reader.session() as connection:
        found = list(check_files(reader, connection, is_full=False))
    assert [f.severity for f in found if f.check == "folder"] == [Severity.WARNING]


@pytest.mark.parametrize("number", [1, 3])
def test_a_missing_or_truncated_leaf_file_is_named(ledger, number):
    path = packed_path if number == 1 else leaf_path
    file = path(ledger / "leaves", number)
    file.write_bytes(file.read_bytes()[:-1])
    severity, detail = look(ledger)["leaf files"]
    assert severity is Severity.FAULT
    assert f"{number:08d}" in detail
    file.unlink()
    assert "missing" in look(ledger)["leaf files"][1]


def test_a_packed_file_that_holds_something_else(ledger):
    packed = packed_path(ledger / "leaves", 1)
    shutil.copy(packed_path(ledger / "leaves", 2), packed)
    assert look(ledger)["leaf files"][0] is Severity.OK  # as long as it should be
    severity, detail = look(ledger, is_full=True)["leaf files"]
    assert severity is Severity.FAULT
    assert detail == "leaf file 1 is not what was packed"


def test_a_truncated_or_missing_tile_is_named(ledger):
    [tile] = [p for p in (ledger / "log/tile/0").rglob("*") if p.is_file()]
    raw = tile.read_bytes()
    tile.write_bytes(raw[:-1])
    severity, detail = look(ledger)["log"]
    assert severity is Severity.FAULT
    assert "has 95 bytes, needs 96" in detail
    tile.write_bytes(raw[:-1] + b"?")
    assert look(ledger)["log"][0] is Severity.OK
    assert "another root" in look(ledger, is_full=True)["log"][1]
    tile.unlink()
    assert look(ledger)["log"][0] is Severity.FAULT


def test_a_database_older_than_the_log_is_a_fault(ledger, monkeypatch):
    """As after an old backup was put back under a log that went on."""
    real = checkup_files.highest
    monkeypatch.setattr(checkup_files, "highest", lambda *a: real(*a) - 1)
    severity, detail = look(ledger)["log"]
    assert severity is Severity.FAULT
    assert "the database is older" in detail


def test_a_log_that_is_not_published_is_a_warning(ledger, monkeypatch):
    monkeypatch.setattr(checkup_files, "_MAX_UNPUBLISHED", 2)
    shutil.rmtree(ledger / "log")
    severity, detail = look(ledger)["log"]
    assert (severity, detail) == (Severity.WARNING, "0 of 3 entries are published")
