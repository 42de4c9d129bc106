"""A witness stands for a log that only grows, and convicts one that does not."""

import dataclasses

import pytest

from ledger.errors import (
    FormatRefused,
    LogRefused,
    LogUnavailable,
    NotFound,
    SignatureRefused,
    StoreUnavailable,
)
from ledger.log.checkpoint import (
    Checkpoint,
    cosigners_of,
    log_key,
    sign_checkpoint,
    verify_checkpoint,
    witness_key,
)
from ledger.log.entry import entry_hash
from ledger.log.folder import LogFolder, LogReader
from ledger.log.note import SignedNote
from ledger.log.tiles import extend
from ledger.log.tree import EMPTY_ROOT, root_of
from ledger.log.witness import Witness
from tests.support.ledger_world import NOVEMBER_US, Party

NETWORK, LEDGER, ANNA = map(Party, ("network", "ledger", "anna"))
LOG_KEY = log_key(NETWORK.id, LEDGER.id)
LEAVES = [entry_hash(b"entry %d" % n) for n in range(600)]
OTHER = [entry_hash(b"other %d" % n) for n in range(600)]


class Shelf:
    """A log in memory, as somebody serves it."""

    def __init__(self, leaves=LEAVES):
        self.files = {}
        self.leaves = leaves
        self.show(0)

    def show(self, size, **changes):
        def read(tile):
            return self.files[tile.path]

        before = self.size if hasattr(self, "size") else 0
        for tile, raw in extend(read, before, self.leaves[before:size]):
            self.files[tile.path] = raw
        self.size = max(size, before)
        root = root_of(self.leaves[:size]) if size else EMPTY_ROOT
        head = dataclasses.replace(Checkpoint(LOG_KEY.name, size, root), **changes)
        self.files["checkpoint"] = sign_checkpoint(head, LOG_KEY, LEDGER.sign).pack()
        return head

    def fetch(self, path, max_bytes):
        if path not in self.files:
            raise NotFound(f"{path} is not there")
        return self.files[path][: max_bytes + 1]

    @property
    def reader(self):
        return LogReader(self.fetch)


@pytest.fixture
def witness(tmp_path):
    return witness_of(tmp_path)


def witness_of(tmp_path, now_us=NOVEMBER_US):
    key = witness_key("example.com/anna", ANNA.id)
    return Witness(tmp_path / "state", key, ANNA.sign, lambda: now_us)


def test_a_growing_log_is_cosigned_at_each_head(witness, tmp_path):
    shelf = Shelf()
    for size in (0, 1, 2, 255, 256, 257, 600):
        head = shelf.show(size)
        seen = witness.look(shelf.reader, LOG_KEY)
        assert (seen.checkpoint, seen.is_new) == (head, True)
        (anna,) = cosigners_of(seen.note, (ANNA.id,))
        assert anna.time_s == NOVEMBER_US // 1_000_000
        assert verify_checkpoint(seen.note, LOG_KEY) == head
        assert SignedNote.parse(seen.path.read_bytes()) == seen.note
        again = witness_of(tmp_path, NOVEMBER_US + 10**7).look(shelf.reader, LOG_KEY)
        assert again == dataclasses.replace(seen, is_new=False)


def test_a_log_that_goes_back_is_refused_and_convicted(witness, tmp_path):
    shelf = Shelf()
    shelf.show(300)
    seen = witness.look(shelf.reader, LOG_KEY)
    back = shelf.show(299)
    with pytest.raises(LogRefused, match="log of 299 entries; 300 were seen"):
        witness.look(shelf.reader, LOG_KEY)
    (kept,) = (tmp_path / "state").glob("*.refused-299-*.note")
    assert verify_checkpoint(SignedNote.parse(kept.read_bytes()), LOG_KEY) == back
    shelf.show(300)
    assert witness.look(shelf.reader, LOG_KEY).note == seen.note


@pytest.mark.parametrize("size", [256, 300, 301, 600])
def test_a_log_of_another_past_is_refused(witness, size):
    first, second = Shelf(), Shelf([*LEAVES[:255], *OTHER[255:]])
    first.show(300 if size != 256 else 256)
    witness.look(first.reader, LOG_KEY)
    second.show(size)
    with pytest.raises(LogRefused):
        witness.look(second.reader, LOG_KEY)
    first.show(600)
    assert witness.look(first.reader, LOG_KEY).is_new


@pytest.mark.parametrize("path", ["tile/0/000", "tile/0/001.p/4", "tile/1/000.p/1"])
@pytest.mark.parametrize("damage", ["flipped", "gone", "cut"])
def test_a_damaged_file_convicts_nobody(witness, tmp_path, path, damage):
    shelf = Shelf()
    shelf.show(130)
    witness.look(shelf.reader, LOG_KEY)
    shelf.show(260)
    raw = shelf.files[path]
    if damage == "gone":
        del shelf.files[path]
    else:
        shelf.files[path] = raw[:-1] + (b"?" if damage == "flipped" else b"")
    with pytest.raises((LogUnavailable, FormatRefused)):
        witness.look(shelf.reader, LOG_KEY)
    assert not list((tmp_path / "state").glob("*refused*"))
    shelf.files[path] = raw
    assert witness.look(shelf.reader, LOG_KEY).is_new


def test_a_head_that_its_tiles_do_not_show_is_not_cosigned(witness):
    shelf = Shelf()
    shelf.show(3, root=OTHER[0])
    with pytest.raises(LogUnavailable, match="another root"):
        witness.look(shelf.reader, LOG_KEY)
    head = Checkpoint(LOG_KEY.name, 1 << 62, OTHER[0])
    shelf.files["checkpoint"] = sign_checkpoint(head, LOG_KEY, LEDGER.sign).pack()
    with pytest.raises(LogUnavailable):
        witness.look(shelf.reader, LOG_KEY)


def test_another_logs_head_is_not_looked_at(witness):
    shelf = Shelf()
    other = log_key(NETWORK.id, Party("other").id)
    with pytest.raises(SignatureRefused):
        witness.look(shelf.reader, other)
    shelf.files["checkpoint"] = b"x" * 70_000
    with pytest.raises(FormatRefused):
        witness.look(shelf.reader, LOG_KEY)
    del shelf.files["checkpoint"]
    with pytest.raises(LogUnavailable, match="no checkpoint yet"):
        witness.look(shelf.reader, LOG_KEY)


def test_two_logs_are_told_apart(witness):
    network = Party("another network")
    key = log_key(network.id, LEDGER.id)
    shelf = Shelf()
    shelf.show(9)
    witness.look(shelf.reader, LOG_KEY)
    note = sign_checkpoint(Checkpoint(key.name, 0, EMPTY_ROOT), key, LEDGER.sign)
    shelf.files["checkpoint"] = note.pack()
    assert witness.look(shelf.reader, key).checkpoint.size == 0


def test_what_was_seen_is_never_forgotten(witness, monkeypatch):
    shelf = Shelf()
    shelf.show(9)
    seen = witness.look(shelf.reader, LOG_KEY)
    whole = seen.path.read_bytes()
    for damaged in (b"", whole[:-3], whole.replace(b"\n9\n", b"\n8\n")):
        seen.path.write_bytes(damaged)
        with pytest.raises(StoreUnavailable, match="damaged"):
            witness.look(shelf.reader, LOG_KEY)
    seen.path.write_bytes(whole)

    def full(_):
        raise OSError(28, "No space left on device")

    shelf.show(10)
    monkeypatch.setattr("ledger.log.folder.os.fsync", full)
    with pytest.raises(StoreUnavailable, match="No space"):
        witness.look(shelf.reader, LOG_KEY)
    assert seen.path.read_bytes() == whole


def test_what_came_is_inspected_before_it_is_cosigned(tmp_path):
    looked = []

    def inspect(_, old_size, head):
        looked.append((old_size, head.size))
        if head.size == 5:
            raise LogRefused("log entry 4: nonsense")

    key = witness_key("example.com/anna", ANNA.id)
    witness = Witness(tmp_path / "state", key, ANNA.sign, lambda: 0, inspect)
    shelf = Shelf()
    for size in (2, 2, 4):
        shelf.show(size)
        witness.look(shelf.reader, LOG_KEY)
    shelf.show(5)
    with pytest.raises(LogRefused, match="nonsense"):
        witness.look(shelf.reader, LOG_KEY)
    assert looked == [(0, 2), (2, 4), (4, 5)]
    assert list((tmp_path / "state").glob("*.refused-5-*.note"))


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "state").write_text("a file")
    with pytest.raises(StoreUnavailable):
        witness_of(tmp_path)


def test_it_reads_what_the_publisher_writes(witness, tmp_path):
    folder = LogFolder(tmp_path / "log")
    for tile, raw in extend(folder.tile, 0, LEAVES[:3]):
        folder.put(tile.path, raw)
    head = Checkpoint(LOG_KEY.name, 3, root_of(LEAVES[:3]))
    folder.put("checkpoint", sign_checkpoint(head, LOG_KEY, LEDGER.sign).pack())
    assert witness.look(folder, LOG_KEY).checkpoint == head
