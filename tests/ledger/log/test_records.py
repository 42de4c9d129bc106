"""The log in the database: entries by index, heads with their cosignatures."""

import pytest
from sqlalchemy import delete

from ledger.errors import DifferenceFound
from ledger.log.checkpoint import Checkpoint, cosign, log_origin, witness_key
from ledger.log.cosigning import log_cosign
from ledger.log.entry import entry_hash
from ledger.log.folder import LogFolder
from ledger.log.records import checkpoint_note, read_entries, rewrite_signed
from ledger.log.tree import EMPTY_ROOT, root_of
from ledger.log.writing import LogWriter
from ledger.schema_closing import closing
from tests.support.ledger_world import Party
from tests.support.log_world import LogWorld


@pytest.fixture
def books(tmp_path):
    with LogWorld(tmp_path / "ledger") as books:
        yield books


def test_entries_come_in_the_order_of_their_index(books):
    entries = books.close(5)
    with books.reader().session() as connection:
        found = read_entries(connection, 2, 2)
        assert [entry.raw for entry in found] == entries[2:4]
        assert [entry.hash for entry in found] == list(map(entry_hash, entries[2:4]))
        assert read_entries(connection, 5, 9) == []


def test_a_hole_is_found(books):
    books.close(3)
    with books.engine.begin() as connection:
        connection.execute(delete(closing).where(closing.c.log_index == 1))
    with books.reader().session() as connection:
        with pytest.raises(DifferenceFound, match="log index 2 where 1 is due"):
            read_entries(connection, 0, 3)


def test_heads_come_with_what_witnesses_said(books):
    anna = Party("anna")
    key = witness_key("anna", anna.id)
    with books.reader().session() as connection:
        assert checkpoint_note(connection) is None
    books.publish()
    books.close(1)
    books.publish()
    note = cosign(LogFolder(books.log).checkpoint(), key, anna.sign, 5)
    books.operate(log_cosign, note=note.pack().hex(), witness=key.text)
    with books.reader().session() as connection:
        assert checkpoint_note(connection) == checkpoint_note(connection, 1) == note
        assert len(checkpoint_note(connection, 0).signatures) == 1
        assert checkpoint_note(connection, 2) is None


def test_files_follow_from_the_database(books, tmp_path):
    books.publish()
    hashes = []
    for n in (2, 3):
        hashes += map(entry_hash, books.close(n))
        books.publish()
    folder = LogFolder(tmp_path / "log")
    writer = LogWriter(folder, log_origin(books.world.network.id))
    with books.reader().session() as connection:
        head = rewrite_signed(connection, writer, None)
        assert head == Checkpoint(head.origin, 5, root_of(hashes))
        assert folder.tree(2).root == root_of(hashes[:2])
        assert rewrite_signed(connection, writer, head) == head
    with LogWorld(tmp_path / "none") as none, none.reader().session() as connection:
        assert rewrite_signed(connection, writer, None) is None
    assert folder.tree(0).root == EMPTY_ROOT
