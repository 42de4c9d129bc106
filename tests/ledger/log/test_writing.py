"""Writing: the head is of what the disk has, and extends the head so far."""

import pytest

from ledger.errors import DifferenceFound
from ledger.log.checkpoint import Checkpoint, log_key, sign_checkpoint
from ledger.log.entry import entry_hash
from ledger.log.folder import LogFolder
from ledger.log.tiles import Tile
from ledger.log.tree import EMPTY_ROOT, root_of
from ledger.log.writing import (
    ClosedEntry,
    LogWriter,
    check_not_later,
    check_shown,
)
from tests.support.ledger_world import Party

ENTRIES = [ClosedEntry(raw, entry_hash(raw)) for raw in (b"%d" % n for n in range(600))]
NETWORK, LEDGER = Party("network"), Party("ledger")
KEY = log_key(NETWORK.id, LEDGER.id)


@pytest.fixture
def folder(tmp_path):
    return LogFolder(tmp_path / "log")


@pytest.fixture
def writer(folder):
    return LogWriter(folder, KEY.name)


def write(writer, old, size):
    start = (old.size if old else 0) // 256 * 256
    return writer.write(old, start, ENTRIES[start:size])


def test_heads_of_growing_trees(writer, folder):
    head = None
    for size in (0, 1, 255, 256, 300, 600):
        head = write(writer, head, size)
        hashes = [entry.hash for entry in ENTRIES[:size]]
        assert head == Checkpoint(KEY.name, size, root_of(hashes))
    assert folder.entries(Tile(0, 2, 88)) == [entry.raw for entry in ENTRIES[512:]]
    writer.drop_partial(600, 255)
    assert not (folder.path / "tile/0/000.p").exists()
    assert folder.tree(255).root == root_of([entry.hash for entry in ENTRIES[:255]])


def test_the_same_again_changes_nothing(writer, folder):
    first = write(writer, None, 300)
    before = {path: path.stat().st_ino for path in folder.path.rglob("*")}
    assert write(writer, None, 300) == first
    assert {path: path.stat().st_ino for path in folder.path.rglob("*")} == before


def test_a_head_that_the_folder_does_not_have(writer):
    head = write(writer, None, 300)
    for other in (
        Checkpoint(KEY.name, 300, bytes(32)),
        Checkpoint(KEY.name, 299, head.root),
        Checkpoint(KEY.name, 513, head.root),
        Checkpoint(KEY.name, 0, bytes(32)),
    ):
        with pytest.raises(DifferenceFound):
            write(writer, other, 600)


def test_an_entry_with_another_hash_is_found(writer):
    wrong = [*ENTRIES[:2], ClosedEntry(b"other", ENTRIES[2].hash)]
    with pytest.raises(DifferenceFound, match="entry 2 is not what was closed"):
        writer.write(None, 0, wrong)


def test_what_was_shown_binds(folder):
    def show(size, root=EMPTY_ROOT, key=LEDGER):
        note = sign_checkpoint(Checkpoint(KEY.name, size, root), KEY, key.sign)
        folder.put("checkpoint", note.pack())

    check_shown(folder, KEY, None)
    check_not_later(None, None)
    show(5)
    check_shown(folder, KEY, Checkpoint(KEY.name, 5, EMPTY_ROOT))
    check_shown(folder, KEY, Checkpoint(KEY.name, 6, EMPTY_ROOT))
    for known in (
        None,
        Checkpoint(KEY.name, 4, EMPTY_ROOT),
        Checkpoint(KEY.name, 5, bytes(32)),
    ):
        with pytest.raises(DifferenceFound, match="of an earlier day"):
            check_shown(folder, KEY, known)
    show(5, key=Party("other"))
    with pytest.raises(DifferenceFound, match="does not verify"):
        check_shown(folder, KEY, None)
