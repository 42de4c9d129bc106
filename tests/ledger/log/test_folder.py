"""The log's files: whole or not there, bounded, partial tiles out of full ones."""

import pytest

from ledger.errors import FormatRefused, LogUnavailable, NotFound
from ledger.log.folder import LogFolder, LogReader, fetch_from
from ledger.log.note import NoteSignature, SignedNote
from ledger.log.tiles import Tile, pack_bundle

ENTRIES = [b"entry %d" % n for n in range(256)]


@pytest.fixture
def folder(tmp_path):
    return LogFolder(tmp_path / "log")


def test_what_was_put_is_read(folder):
    tile = Tile(0, 1234, 2)
    folder.put(tile.path, bytes(64))
    folder.put(tile.bundle_path, pack_bundle(ENTRIES[:2]))
    folder.sync()
    assert folder.tile(tile) == bytes(64)
    assert folder.entries(tile) == ENTRIES[:2]
    assert (folder.path / "tile/0/x001/234.p/2").stat().st_size == 64
    assert list(folder.path.rglob("*.new")) == []


def test_a_file_is_replaced_in_one_step_and_left_alone_if_the_same(folder):
    folder.put("checkpoint", b"one")
    inode = (folder.path / "checkpoint").stat().st_ino
    folder.put("checkpoint", b"one")
    assert (folder.path / "checkpoint").stat().st_ino == inode
    folder.put("checkpoint", b"two")
    assert (folder.path / "checkpoint").read_bytes() == b"two"
    (folder.path / "checkpoint.new").write_bytes(b"left by a crash")
    folder.put("checkpoint", b"three")
    assert (folder.path / "checkpoint").read_bytes() == b"three"


def test_a_partial_tile_is_cut_from_the_full_one(folder):
    full = Tile(0, 0)
    folder.put(full.path, bytes(range(256)) * 32)
    folder.put(full.bundle_path, pack_bundle(ENTRIES))
    assert folder.tile(Tile(0, 0, 3)) == bytes(range(96))
    assert folder.entries(Tile(0, 0, 3)) == ENTRIES[:3]
    folder.put(Tile(0, 0, 3).path, bytes(range(96)))
    folder.drop_partial(full)
    assert not (folder.path / "tile/0/000.p").exists()
    assert folder.tile(Tile(0, 0, 3)) == bytes(range(96))


def test_what_is_missing_or_too_long(folder):
    for tile in (Tile(0, 0), Tile(0, 0, 3)):
        with pytest.raises(LogUnavailable, match="000"):
            folder.tile(tile)
        with pytest.raises(LogUnavailable, match="000"):
            folder.entries(tile)
    folder.put(Tile(0, 0, 3).path, bytes(95))
    with pytest.raises(FormatRefused, match="has 95 bytes, needs 96"):
        folder.tile(Tile(0, 0, 3))
    folder.put(Tile(0, 0, 3).path, bytes(97))
    with pytest.raises(FormatRefused, match="more than 96"):
        folder.tile(Tile(0, 0, 3))
    folder.put(Tile(0, 0, 3).bundle_path, b"\0\1")
    with pytest.raises(FormatRefused, match="tile/entries/000"):
        folder.entries(Tile(0, 0, 3))


def test_a_log_without_a_checkpoint_yet(folder):
    assert folder.checkpoint() is None
    note = SignedNote("a\n", (NoteSignature("k", b"abcd", b"s"),))
    folder.put("checkpoint", note.pack())
    assert folder.checkpoint() == note
    folder.put("checkpoint", b"x" * (65 << 10))
    with pytest.raises(FormatRefused):
        folder.checkpoint()


def test_a_folder_that_cannot_be_read(tmp_path):
    fetch = fetch_from(tmp_path)
    with pytest.raises(NotFound):
        fetch("checkpoint", 10)
    (tmp_path / "checkpoint").mkdir()
    with pytest.raises(LogUnavailable):
        LogReader(fetch).checkpoint()


def test_a_disk_that_refuses_leaves_the_old_file(folder, monkeypatch):
    folder.put("checkpoint", b"one")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("ledger.log.folder.os.fsync", full)
    with pytest.raises(OSError, match="No space"):
        folder.put("checkpoint", b"two")
    assert (folder.path / "checkpoint").read_bytes() == b"one"
