"""Publishing: closed vouchers are written, read back, then signed; never undone."""

import shutil

import pytest
from sqlalchemy import delete, func, select, update

from ledger.errors import DifferenceFound, LogUnavailable, StoreUnavailable
from ledger.log.checkpoint import Checkpoint, cosign, log_key, log_origin, witness_key
from ledger.log.entry import LogEntry, entry_hash
from ledger.log.folder import LogFolder
from ledger.log.records import checkpoint_note
from ledger.log.tiles import Tile
from ledger.log.tree import EMPTY_ROOT, root_of
from ledger.schema_closing import checkpoint, closing, cosignature
from tests.support.ledger_world import Party
from tests.support.log_world import LogWorld


@pytest.fixture
def books(tmp_path):
    with LogWorld(tmp_path / "ledger") as books:
        yield books


def shown(books):
    note = LogFolder(books.log).checkpoint()
    return None if note is None else Checkpoint.parse(note.text)


def test_an_empty_log_has_a_head_so_that_witnesses_can_begin(books):
    origin = log_origin(books.world.network.id)
    assert books.publish() == Checkpoint(origin, 0, EMPTY_ROOT) == shown(books)
    assert books.publish() is None


def test_closed_vouchers_are_entries_in_their_order(ledger_database):
    with LogWorld(ledger_database) as books:
        entries = books.close(3)
        head = books.publish()
        assert (head.size, head.root) == (3, root_of(list(map(entry_hash, entries))))
        log = LogFolder(books.log)
        assert log.entries(Tile(0, 0, 3)) == entries
        assert all(LogEntry.parse(raw).policy_hash for raw in entries)
        assert books.publish() is None
        entries += books.close(2)
        assert books.publish().size == 5
        assert log.tree(5).root == root_of(list(map(entry_hash, entries)))
        with books.reader().session() as connection:
            note = checkpoint_note(connection)
            assert note == log.checkpoint()
            assert checkpoint_note(connection, 3).text == head.text
            assert checkpoint_note(connection, 4) is None


def test_batches_across_tiles_give_the_same_tree(books, monkeypatch):
    monkeypatch.setattr("ledger.log.publisher._BATCH", 256)
    entries = books.close(250)
    books.publish()
    entries += books.close(270)
    head = books.publish()
    assert (head.size, head.root) == (520, root_of(list(map(entry_hash, entries))))
    log = LogFolder(books.log)
    assert log.tree(520).root == head.root
    assert [*log.entries(Tile(0, 0)), *log.entries(Tile(0, 1))] == entries[:512]
    names = sorted(
        str(path.relative_to(books.log))
        for path in books.log.rglob("*")
        if path.is_file()
    )
    assert names == [
        "checkpoint",
        "tile/0/000",
        "tile/0/001",
        "tile/0/002.p/8",
        "tile/1/000.p/1",
        "tile/1/000.p/2",
        "tile/entries/000",
        "tile/entries/001",
        "tile/entries/002.p/8",
    ]
    # the older checkpoints' partial tiles come out of the full ones
    assert log.tree(250).root == root_of(list(map(entry_hash, entries[:250])))
    with books.engine.connect() as connection:
        sizes = connection.execute(select(checkpoint.c.size)).scalars().all()
    assert sizes == [250, 506, 520]


def test_a_long_backlog_is_published_in_parts(books, monkeypatch):
    monkeypatch.setattr("ledger.log.publisher._BATCH", 10)
    monkeypatch.setattr("ledger.log.publisher._MAX_BATCHES", 2)
    books.close(45)
    assert [books.publish().size for _ in range(3)] == [20, 40, 45]
    assert books.publish() is None


def flip(path, at: int = 40) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(raw)


@pytest.mark.parametrize("name", ["tile/entries/000.p/3", "tile/0/000.p/3"])
def test_a_bit_that_the_disk_got_wrong_is_found_before_signing(
    books, monkeypatch, name
):
    books.close(3)
    sync = LogFolder.sync

    def sync_badly(folder):
        sync(folder)
        if (folder.path / name).exists():
            flip(folder.path / name)

    monkeypatch.setattr(LogFolder, "sync", sync_badly)
    with pytest.raises(DifferenceFound, match=r"entry [01]"):
        books.publish()
    assert shown(books) is None
    with books.engine.connect() as connection:
        assert connection.execute(select(func.count(checkpoint.c.size))).scalar() == 0
    monkeypatch.undo()
    assert books.publish().size == 3  # what was not signed is written anew


def test_a_signed_tile_that_changed_stops_the_log(books):
    books.close(3)
    books.publish()
    flip(books.log / "tile/0/000.p/3")
    assert books.publish() is None
    books.close(1)
    with pytest.raises(DifferenceFound, match="another root"):
        books.publish()
    assert shown(books).size == 3


@pytest.mark.parametrize("cut", ["truncated", "gone"])
def test_a_signed_tile_that_is_truncated_or_gone(books, cut):
    books.close(3)
    books.publish()
    path = books.log / "tile/0/000.p/3"
    path.write_bytes(path.read_bytes()[:50]) if cut == "truncated" else path.unlink()
    books.close(1)
    with pytest.raises(DifferenceFound, match=r"000\.p/3"):
        books.publish()
    assert shown(books).size == 3


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_crash_at_any_write_is_mended_by_the_next_run(books, monkeypatch, before):
    put = LogFolder.put
    entries = books.close(254)
    books.publish()
    for fail_at in range(4):
        entries += books.close(1)
        calls = 0

        def put_or_die(folder, name, raw, fail_at=fail_at):
            nonlocal calls
            calls += 1
            if calls <= fail_at or not before:
                put(folder, name, raw)
            if calls > fail_at:
                raise OSError(5, "Input/output error")

        monkeypatch.setattr(LogFolder, "put", put_or_die)
        with pytest.raises(StoreUnavailable, match="Input/output error"):
            books.publish()
        monkeypatch.undo()
        books.publish()
        assert shown(books).size == len(entries)
    tree = LogFolder(books.log).tree(len(entries))
    assert tree.root == root_of(list(map(entry_hash, entries))) == shown(books).root


def test_a_head_that_was_committed_is_shown_by_the_next_run(books):
    books.close(2)
    books.publish()
    (books.log / "checkpoint").unlink()
    assert books.publish() is None
    assert shown(books).size == 2


def test_a_database_of_an_earlier_day_signs_nothing(books):
    books.close(5)
    books.publish()
    with books.engine.begin() as connection:
        connection.exec_driver_sql("drop trigger checkpoint_no_delete")
        connection.execute(delete(checkpoint))
    books.close(1)
    with pytest.raises(DifferenceFound, match="of an earlier day"):
        books.publish()
    assert shown(books).size == 5


def test_closings_that_are_lost_are_found(books):
    books.close(5)
    books.publish()
    with books.engine.begin() as connection:
        connection.execute(delete(closing).where(closing.c.log_index == 4))
    with pytest.raises(DifferenceFound, match="5 entries is signed, 4 vouchers"):
        books.publish()


def test_closings_that_are_changed_are_found(books):
    books.close(5)
    books.publish()
    books.close(1)
    second = closing.c.log_index == 1
    with books.engine.begin() as connection:
        connection.execute(update(closing).where(second).values(entry_hash=bytes(32)))
    with pytest.raises(DifferenceFound, match="entry 1 is not what was closed"):
        books.publish()
    with books.engine.begin() as connection:
        connection.execute(delete(closing).where(second))
    with pytest.raises(DifferenceFound, match="log index 2 where 1 is due"):
        books.publish()
    assert shown(books).size == 5


def test_a_checkpoint_of_another_key_stops_the_log(books):
    books.close(1)
    books.publish()
    path = books.log / "checkpoint"
    flip(path, at=len(path.read_bytes()) - 10)
    with pytest.raises(DifferenceFound, match="checkpoint"):
        books.publish()
    path.unlink()
    books.world.ledger = Party("other")
    books.close(1)
    with pytest.raises(Exception, match="does not verify"):
        books.publish()


def test_cosignatures_are_shown_with_the_newest_head(books):
    books.close(1)
    head = books.publish()
    witness = Party("witness")
    key = witness_key("example.com/w", witness.id)
    note = cosign(LogFolder(books.log).checkpoint(), key, witness.sign, 1_793_491_200)
    with books.engine.begin() as connection:
        row = {"size": 1, "witness": witness.id, "line": note.signatures[1].line}
        connection.execute(cosignature.insert().values(**row, posted_us=0))
    assert books.publish() is None
    assert LogFolder(books.log).checkpoint() == note
    assert head.origin == log_key(books.world.network.id, books.world.ledger.id).name


def test_a_log_folder_that_cannot_be_written(books):
    books.close(1)
    books.log.write_text("a file where the folder should be")
    with pytest.raises(LogUnavailable, match="log/checkpoint: Not a directory"):
        books.publish()
    books.log.unlink()
    assert books.publish().size == 1


@pytest.mark.parametrize("size", [None, 2, 3])
def test_a_folder_of_a_moment_before_is_brought_up(books, tmp_path, size):
    """A backup takes the log before the database; or the log is lost altogether."""
    entries = books.close(2)
    books.publish()
    if size == 2:
        shutil.copytree(books.log, tmp_path / "before")
    entries += books.close(1)
    books.publish()
    if size == 3:
        shutil.copytree(books.log, tmp_path / "before")
    entries += books.close(299)
    books.publish()
    shutil.rmtree(books.log)
    if size is not None:
        shutil.copytree(tmp_path / "before", books.log)
    assert books.publish() is None
    assert shown(books).size == 302
    entries += books.close(1)
    head = books.publish()
    log = LogFolder(books.log)
    hashes = list(map(entry_hash, entries))
    assert log.tree(303).root == head.root == root_of(hashes)
    assert log.tree(2).root == root_of(hashes[:2])


def test_a_folder_that_leads_elsewhere_is_not_brought_up(books):
    books.close(1)
    books.publish()
    books.close(1)
    books.publish()
    shutil.rmtree(books.log)
    with books.engine.begin() as connection:
        connection.exec_driver_sql("drop trigger checkpoint_no_update")
        connection.execute(
            update(checkpoint).where(checkpoint.c.size == 1).values(root=bytes(32))
        )
    with pytest.raises(DifferenceFound, match="was signed another root"):
        books.publish()
