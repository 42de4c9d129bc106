"""A ledger on a disk that is full, or that cannot be written: a file system of its own.

A tmpfs of a few MiB is mounted for each test, so that it is the system that refuses.
"""

import contextlib
import json
import subprocess
from pathlib import Path

import pytest

from ledger.audit import verify_ledger
from ledger.backup import restore_backup, take_backup
from ledger.claims import FiledStatus
from ledger.database import LedgerFolder, Reader
from ledger.errors import StoreUnavailable
from tests.support.hosts import needs_root_and
from tests.support.ledger_commands import document_of, run, world_with_vouchers
from tests.support.ledger_world import World

_SIZE = "3m"


def mount(*words: str | Path) -> None:
    subprocess.run(["mount", *words], check=True, capture_output=True, timeout=20)


@pytest.fixture
def disk(tmp_path):
    """A file system of 3 MiB."""
    needs_root_and("mount", "umount")
    place = tmp_path / "disk"
    place.mkdir()
    mount("-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", place)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True, timeout=20)


def fill(disk: Path) -> Path:
    """Leave not one block free; return the file that takes them."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while file.write(bytes(4096)):
            pass
    return ballast


def test_a_full_disk_loses_nothing_that_was_acknowledged(disk, ledger_databases):
    world = World()
    path = ledger_databases(disk / "ledger")
    with world.open(path, credit_uc=10**9) as store:
        tab = world.tab(store.grant(world.order(ceiling_uc=10**8)).result(60))
        assert tab.file(store, 0).status is FiledStatus.STORED
        ballast = fill(disk)
        error = None
        for n in range(1, 2000):  # SQLite's log may have a little room
            signed, block = tab.next(*range(n * 64, n * 64 + 64))
            error = store.file(signed, block, b"f" * 32).exception(60)
            if error:
                break
        assert isinstance(error, StoreUnavailable)
        assert "\n" not in str(error)
        assert "full" in str(error) or "space" in str(error)
        with pytest.raises(StoreUnavailable):  # and again, for as long as it is full
            store.file(signed, block, b"f" * 32).result(60)
        ballast.unlink()
        assert store.file(signed, block, b"f" * 32).result(60).status == 0
        store.tend()
        verify_ledger(store.reader(), world.identity)


def test_a_backup_that_does_not_fit_leaves_nothing(disk, tmp_path):
    world_with_vouchers(tmp_path / "ledger")
    fill(disk)
    for target in (disk / "b", disk / "b.tar"):
        with pytest.raises(StoreUnavailable, match=r"full|No space left"):
            take_backup(tmp_path / "ledger", target, 0)
    assert [path.name for path in disk.iterdir()] == ["ballast"]
    take_backup(tmp_path / "ledger", tmp_path / "b.tar", 0)
    with pytest.raises(StoreUnavailable, match=r"full|No space left"):
        restore_backup(tmp_path / "b.tar", disk / "again")
    assert not LedgerFolder(disk / "again").holds_ledger


def test_a_read_only_folder_is_read_and_not_run(disk, tmp_path):
    path = disk / "ledger"
    world = world_with_vouchers(path)
    verified = document_of(path, "verify")
    mount("-o", "remount,ro", disk)
    assert document_of(path, "verify") == verified
    checks = {
        c["check"]: c["state"]
        for c in json.loads(run(path, "doctor", "--json").stdout)["checks"]
    }
    assert checks["folder"] == "warning"
    with pytest.raises(StoreUnavailable) as caught:
        world.open(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    take_backup(path, tmp_path / "b.tar", 0)
    restore_backup(tmp_path / "b.tar", tmp_path / "again")
    verify_ledger(Reader(tmp_path / "again"), world.identity)
