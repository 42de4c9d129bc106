"""Proofs out of a ledger's folder: under the head that witnesses saw, if any did."""

import pytest

from ledger.errors import DifferenceFound
from ledger.log.checkpoint import cosign, witness_key
from ledger.log.cosigning import log_cosign
from ledger.log.entry import LogEntry
from ledger.log.folder import LogFolder
from ledger.log.proving import prove_logged
from ledger.voucher import voucher_hash
from tests.support.ledger_world import Party
from tests.support.log_world import LogWorld

ANNA = Party("anna")


@pytest.fixture
def books(tmp_path):
    with LogWorld(tmp_path / "ledger") as books:
        yield books


def prove(books, entry):
    reader = books.reader()
    name = voucher_hash(LogEntry.parse(entry).signed.raw)
    with reader.session() as connection:
        return prove_logged(connection, reader.folder, name)


def check(books, entry, proof, **wanted):
    ids = {"network": books.world.network.id, "ledger": books.world.ledger.id}
    return proof.verify(LogEntry.parse(entry).signed, **ids, **wanted)


def test_every_closed_voucher_is_proved_once_published(books):
    entries = books.close(3)
    assert prove(books, entries[0]) is None
    books.publish()
    entries += books.close(256)
    assert prove(books, entries[3]) is None
    books.publish()
    for index in (0, 2, 3, 255, 256, 258):
        proof = prove(books, entries[index])
        found = check(books, entries[index], proof)
        assert (found.index, found.checkpoint.size) == (index, 259)


def test_nothing_is_proved_of_an_open_voucher(books):
    books.close(1)
    books.publish()
    reader = books.reader()
    with reader.session() as connection:
        assert prove_logged(connection, reader.folder, bytes(32)) is None


def test_a_head_that_witnesses_saw_is_preferred(books):
    entries = books.close(2)
    books.publish()
    key = witness_key("anna", ANNA.id)
    note = cosign(LogFolder(books.log).checkpoint(), key, ANNA.sign, 5)
    books.operate(log_cosign, note=note.pack().hex(), witness=key.text)
    entries += books.close(300)
    books.publish()
    proof = prove(books, entries[1])
    found = check(books, entries[1], proof, witnesses=[ANNA.id])
    assert found.checkpoint.size == 2
    assert check(books, entries[2], prove(books, entries[2])).checkpoint.size == 302


def test_a_log_that_was_changed_proves_nothing(books):
    entries = books.close(2)
    books.publish()
    path = books.log / "tile/0/000.p/2"
    raw = path.read_bytes()
    path.write_bytes(raw[:-1] + b"?")
    with pytest.raises(DifferenceFound):
        prove(books, entries[0])
    path.unlink()
    with pytest.raises(DifferenceFound):
        prove(books, entries[0])
