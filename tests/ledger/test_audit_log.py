"""Audit of the log: checkpoints, tiles, entries, what is shown and what was kept."""

import sqlite3

import pytest

from ledger.audit import verify_ledger
from ledger.database import Reader
from ledger.errors import DifferenceFound
from ledger.log.checkpoint import Checkpoint, log_key, log_origin, sign_checkpoint
from tests.support.audits import difference_after
from tests.support.honest_books import copy_of_honest_books


@pytest.fixture
def books(tmp_path):
    """A copy whose files may be changed, and what an audit finds there."""
    world = copy_of_honest_books(tmp_path / "books")

    def difference() -> str:
        with pytest.raises(DifferenceFound) as caught:
            verify_ledger(Reader(tmp_path / "books"), world.identity)
        return str(caught.value)

    return tmp_path / "books/log", difference


def flip_a_bit(path):
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)


def test_every_tile_holds(books):
    log, difference = books
    for path in ("tile/0/000.p/12", "tile/entries/000.p/12"):
        flip_a_bit(log / path)
        assert path in difference()
        flip_a_bit(log / path)
    (log / "tile/0/000.p/12").unlink()
    assert "is not there" in difference()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update checkpoint set root = zeroblob(32) where size = 5", "root is 00"),
        ("update checkpoint set size = 7 where size = 6", "size is 7"),
        ("update checkpoint set note = zeroblob(9) where size = 5", "of 5: note"),
        ("delete from checkpoint where size = 12", "not so: it was signed"),
        (
            "insert into cosignature select size, zeroblob(32), '', 1 from checkpoint",
            "no signature line",
        ),
    ],
)
def test_every_checkpoint_holds(change, found):
    assert found in difference_after(change)


def test_the_shown_checkpoint_is_there_and_a_new_one(books, tmp_path):
    log, difference = books
    flip_a_bit(log / "checkpoint")
    assert "the log's checkpoint" in difference()
    database = sqlite3.connect(tmp_path / "books/ledger.sqlite3")
    query = "select note from checkpoint where size = 6"
    (note,) = database.execute(query).fetchone()
    database.close()
    (log / "checkpoint").write_bytes(note)
    assert "newest" in difference()
    (log / "checkpoint").unlink()
    assert "is not there" in difference()


def test_a_checkpoint_that_was_kept_must_still_fit(tmp_path):
    world = copy_of_honest_books(tmp_path / "books")
    reader = Reader(tmp_path / "books")
    kept = (tmp_path / "books/log/checkpoint").read_bytes()
    verify_ledger(reader, world.identity, kept=[kept])
    key = log_key(world.network.id, world.ledger.id)
    other = Checkpoint(log_origin(world.network.id), 9, bytes(32))
    forged = sign_checkpoint(other, key, world.ledger.sign).pack()
    with pytest.raises(DifferenceFound, match="root is 00"):
        verify_ledger(reader, world.identity, kept=[forged])
    larger = sign_checkpoint(
        Checkpoint(other.origin, 99, bytes(32)), key, world.ledger.sign
    )
    with pytest.raises(DifferenceFound, match="of 99: 12 vouchers are closed"):
        verify_ledger(reader, world.identity, kept=[larger.pack()])
