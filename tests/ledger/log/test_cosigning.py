"""What witnesses say is kept if the operator knows them, and nothing else is."""

from dataclasses import replace

import pytest
from sqlalchemy import select

from ledger.errors import LedgerError, NotFound, OperationRefused, SignatureRefused
from ledger.log.checkpoint import Checkpoint, cosign, witness_key
from ledger.log.cosigning import MAX_WITNESSES, log_cosign, read_witnesses
from ledger.log.folder import LogFolder
from ledger.log.note import NoteKey, SignatureKind
from ledger.operations import OPERATIONS
from ledger.schema_closing import cosignature
from tests.support.ledger_world import Party
from tests.support.log_world import LogWorld

ANNA, BEN = Party("anna"), Party("ben")
ANNAS, BENS = (witness_key(f"example.com/{who.name}", who.id) for who in (ANNA, BEN))
TIME_S = 1_793_491_200


@pytest.fixture
def books(tmp_path):
    with LogWorld(tmp_path / "ledger") as books:
        books.close(2)
        books.publish()
        yield books


def note_of(books, *witnesses):
    note = LogFolder(books.log).checkpoint()
    for who, key in witnesses:
        note = cosign(note, key, who.sign, TIME_S)
    return note


def lines(books):
    with books.engine.connect() as connection:
        return connection.execute(select(cosignature)).all()


def test_the_operator_names_a_witness_once(books):
    note = note_of(books, (ANNA, ANNAS))
    with pytest.raises(SignatureRefused, match="known witness"):
        books.operate(log_cosign, note=note.pack().hex())
    params = {"note": note.pack().hex(), "witness": ANNAS.text}
    answer = books.operate(log_cosign, **params)
    cosigner = {"name": ANNAS.name, "witness": ANNA.id.hex(), "time_s": TIME_S}
    assert answer == {"size": 2, "cosigners": [cosigner | {"is_new": True}]}
    again = books.operate(log_cosign, **params)
    assert again == {"size": 2, "cosigners": [cosigner | {"is_new": False}]}
    (row,) = lines(books)
    assert (row.size, row.witness) == (2, ANNA.id)
    assert row.line == note.signatures[1].line
    books.close(1)
    books.publish()
    later = books.operate(log_cosign, note=note_of(books, (ANNA, ANNAS)).pack().hex())
    assert later["size"] == 3
    assert [row.size for row in lines(books)] == [2, 3]
    # an older head may still be cosigned
    both = cosign(note, BENS, BEN.sign, TIME_S).pack().hex()
    assert books.operate(log_cosign, note=both, witness=BENS.text)["size"] == 2
    assert read_witnesses(books.reader().folder) == (ANNAS, BENS)


def test_lines_of_others_are_ignored(books):
    (books.path / "witnesses").write_text(f"# mine\n\n{ANNAS.text}\n")
    note = note_of(books, (BEN, BENS), (ANNA, ANNAS))
    answer = books.operate(log_cosign, note=note.pack().hex())
    assert [each["name"] for each in answer["cosigners"]] == [ANNAS.name]
    assert len(lines(books)) == 1


def test_a_known_key_under_another_name_is_another_witness(books):
    (books.path / "witnesses").write_text(f"{ANNAS.text}\n")
    alias = witness_key("example.com/alias", ANNA.id)
    with pytest.raises(SignatureRefused):
        books.operate(log_cosign, note=note_of(books, (ANNA, alias)).pack().hex())


def test_only_this_ledgers_own_heads(books):
    note = note_of(books, (ANNA, ANNAS))
    head = Checkpoint.parse(note.text)
    for changes in ({"size": 3}, {"root": bytes(32)}, {"origin": "elsewhere"}):
        other = replace(note, text=replace(head, **changes).text)
        other = cosign(other, ANNAS, ANNA.sign, TIME_S)
        with pytest.raises(NotFound, match="no such checkpoint"):
            books.operate(log_cosign, note=other.pack().hex(), witness=ANNAS.text)
    assert lines(books) == []
    assert read_witnesses(books.reader().folder) == ()


def test_a_key_that_did_not_sign_is_not_known_from_then_on(books):
    note = note_of(books, (ANNA, ANNAS)).pack().hex()
    with pytest.raises(SignatureRefused, match="ben"):
        books.operate(log_cosign, note=note, witness=BENS.text)
    assert read_witnesses(books.reader().folder) == ()


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"note": 1},
        {"note": "zz"},
        {"note": "00"},
        {"note": "00" * 70_000},
        {"note": "61", "other": 1},
    ],
    ids=range(6),
)
def test_parameters_are_checked(books, params):
    with pytest.raises(LedgerError):
        books.operate(log_cosign, **params)


def test_a_key_of_another_kind_is_no_witness(books):
    key = NoteKey("example.com/anna", SignatureKind.ED25519, ANNA.id)
    note = note_of(books, (ANNA, ANNAS)).pack().hex()
    with pytest.raises(LedgerError, match="no witness's key"):
        books.operate(log_cosign, note=note, witness=key.text)
    (books.path / "witnesses").write_text(f"{key.text}\n")
    with pytest.raises(OperationRefused, match="witnesses"):
        books.operate(log_cosign, note=note)


def test_witnesses_are_few(books):
    keys = [
        witness_key(f"example.com/{n}", Party(str(n)).id) for n in range(MAX_WITNESSES)
    ]
    path = books.path / "witnesses"
    path.write_text("".join(f"{key.text}\n" for key in keys))
    assert len(read_witnesses(books.reader().folder)) == MAX_WITNESSES
    note = note_of(books, (ANNA, ANNAS)).pack().hex()
    with pytest.raises(OperationRefused, match="more than"):
        books.operate(log_cosign, note=note, witness=ANNAS.text)
    path.write_text(path.read_text() + f"{ANNAS.text}\n")
    with pytest.raises(OperationRefused, match="more than"):
        read_witnesses(books.reader().folder)
    path.write_bytes(b"\xff")
    with pytest.raises(LedgerError, match="cannot be read"):
        read_witnesses(books.reader().folder)


def test_the_operation_is_listed():
    assert OPERATIONS["log.cosign"] is log_cosign
