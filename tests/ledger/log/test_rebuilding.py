"""The log's folder out of the database: the same bytes, or none at all."""

import shutil

import pytest
from sqlalchemy import delete

from ledger.database import FolderLock
from ledger.errors import DifferenceFound, FolderInUse, StoreUnavailable
from ledger.log.folder import LogFolder
from ledger.log.rebuilding import rebuild_log
from ledger.schema_closing import checkpoint, closing
from tests.support.log_world import LogWorld


@pytest.fixture
def books(tmp_path):
    with LogWorld(tmp_path / "ledger") as books:
        for n in (2, 3):
            books.close(n)
            books.publish()
        yield books


def files(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.mark.parametrize("damage", ["truncated", "flipped", "gone"])
def test_a_damaged_log_comes_out_as_it_was(books, damage):
    before = files(books.log)
    path = books.log / "tile/0/000.p/5"
    if damage == "gone":
        path.unlink()
    else:
        raw = path.read_bytes()
        path.write_bytes(raw[:9] if damage == "truncated" else b"?" + raw[1:])
    books.close(1)
    with pytest.raises(DifferenceFound):
        books.publish()
    head, kept = rebuild_log(books.reader())
    assert head.size == 5
    assert kept.is_dir()
    assert files(books.log) == before
    assert books.publish().size == 6


def test_a_log_of_several_tiles(books):
    for n in (255, 30):
        books.close(n)
        head = books.publish()
    before = files(books.log)
    assert "tile/0/001.p/34" in before
    shutil.rmtree(books.log)
    assert rebuild_log(books.reader()) == (head, None)
    assert files(books.log) == before


def test_the_old_folder_is_kept_beside(books):
    (books.log / "tile/0/000.p/5").write_bytes(b"")
    _, first = rebuild_log(books.reader())
    _, second = rebuild_log(books.reader())
    assert (first.name, second.name) == ("log.damaged-1", "log.damaged-2")
    assert (first / "tile/0/000.p/5").read_bytes() == b""


def test_a_database_that_leads_elsewhere_leaves_the_folder(books):
    before = files(books.log)
    with books.engine.begin() as connection:
        connection.execute(delete(closing).where(closing.c.log_index == 4))
    with pytest.raises(DifferenceFound, match="5 entries is signed, 4"):
        rebuild_log(books.reader())
    assert files(books.log) == before


def test_a_database_of_an_earlier_day_takes_no_head_back(books):
    before = files(books.log)
    with books.engine.begin() as connection:
        connection.exec_driver_sql("drop trigger checkpoint_no_delete")
        connection.execute(delete(checkpoint).where(checkpoint.c.size == 5))
    with pytest.raises(DifferenceFound, match="of an earlier day"):
        rebuild_log(books.reader())
    assert files(books.log) == before
    (books.log / "checkpoint").write_bytes(b"damaged")
    assert rebuild_log(books.reader())[0].size == 2


def test_a_ledger_that_runs_is_not_touched(books):
    lock = FolderLock(books.reader().folder.lock)
    try:
        with pytest.raises(FolderInUse):
            rebuild_log(books.reader())
    finally:
        lock.release()


def test_a_full_disk_leaves_the_folder(books, monkeypatch):
    before = files(books.log)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogFolder, "put", full)
    with pytest.raises(StoreUnavailable, match="No space"):
        rebuild_log(books.reader())
    assert files(books.log) == before


def test_a_log_that_never_was_stays_so(tmp_path):
    with LogWorld(tmp_path / "other") as books:
        assert rebuild_log(books.reader()) == (None, None)
        assert not books.log.exists()
