"""Signed notes: the examples of others read back and verify; odd ones are refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatRefused, KeyRefused, LedgerError
from ledger.keys import verify
from ledger.log.note import (
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    NoteKey,
    NoteSignature,
    SignatureKind,
    SignedNote,
)
from tests.support.ledger_world import Party

# The example of the Go checksum database's package of notes.
KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
NOTE = (
    "If you think cryptography is the answer to your problem,\n"
    "then you don't know what your problem is.\n"
    "\n"
    "\u2014 PeterNeumann "
    "x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6"
    "RyyBwJnAM=\n"
).encode()
# The specification's own example, of a text with an empty line.
EXAMPLE = (
    "Ognuno sta solo sul cuor della terra\n"
    "trafitto da un raggio di sole:\n"
    "\n"
    "ed \u00e8 subito sera.\n"
    "\n"
    "\u2014 quasimodo.example/salvatore "
    "NnugSzTjtVAewIS+Z/iJhUPeFDkO/5QQ2i5ddnGITLlC+EhfLW9oJKONrMouFSQU0xMcXxj99ihAQwaqP3"
    "ZekRwNtIc=\n"
).encode()


def test_the_known_note_verifies():
    key, note = NoteKey.parse(KEY), SignedNote.parse(NOTE)
    assert (key.name, key.kind) == ("PeterNeumann", SignatureKind.ED25519)
    assert key.text == KEY
    assert note.pack() == NOTE
    (signature,) = note.signatures
    assert key.made(signature)
    verify(key.key, b"", note.text.encode(), signature.signature)


def test_a_text_may_have_an_empty_line():
    note = SignedNote.parse(EXAMPLE)
    assert note.text.count("\n") == 4
    assert note.pack() == EXAMPLE
    assert note.signatures[0].key_id.hex() == "367ba04b"


def test_a_key_is_named_by_name_kind_and_bytes():
    key = Party("w").id
    ids = {
        NoteKey(name, kind, each).id
        for name in ("a", "b")
        for kind in SignatureKind
        for each in (key, Party("x").id)
    }
    assert len(ids) == 8
    for kind in SignatureKind:
        named = NoteKey("example.com/w", kind, key)
        assert NoteKey.parse(named.text) == named


@pytest.mark.parametrize(
    "text",
    [
        "",
        KEY[1:],
        KEY.replace("c74f20a3", "c74f20a4"),
        KEY.replace("c74f20a3", "C74F20A3"),
        KEY[:-1],
        KEY + "=",
        KEY.replace("+ARp", "+ARq"),
        KEY.replace("+ARp", "+Agp"),
        "a b" + KEY[12:],
        "x" * 5000,
    ],
    ids=range(10),
)
def test_other_verifier_keys_are_refused(text):
    with pytest.raises(LedgerError):
        NoteKey.parse(text)


def test_weak_keys_are_refused():
    with pytest.raises(KeyRefused):
        NoteKey("w", SignatureKind.COSIGNATURE, b"\x01" + bytes(31))


@pytest.mark.parametrize("name", ["", "a b", "a+b", "a\u00a0b", "a\nb", "x" * 256])
def test_names_that_cannot_be(name):
    with pytest.raises(FormatRefused):
        NoteKey(name, SignatureKind.ED25519, Party("w").id)


LINE = NOTE.split(b"\n")[3].decode()


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\n\n",
        b"text\n",
        b"text\n\n",
        b"text\n\nno dash\n",
        NOTE[:-1],
        NOTE + b"\n",
        NOTE.replace(b"If you", b"If\tyou"),
        NOTE.replace(b"If you", b"If\xffyou"),
        NOTE.replace(b"JnAM=", b"JnAN="),
        NOTE.replace(b"JnAM=", b"JnAM"),
        NOTE.replace(b" x08", b"  x08"),
        b"t\n\n" + "\u2014 name AAAAAA==\n".encode(),
        b"t\n\n" + f"{LINE}\n".encode() * (MAX_SIGNATURES + 1),
        b"x" * MAX_NOTE_BYTES + NOTE,
    ],
    ids=range(15),
)
def test_other_notes_are_refused(raw):
    with pytest.raises(FormatRefused):
        SignedNote.parse(raw)


@given(st.binary(max_size=200), st.integers(0, len(NOTE)))
def test_noise_is_refused_or_reads_back(noise, at):
    for raw in (noise, NOTE[:at] + noise + NOTE[at:]):
        try:
            note = SignedNote.parse(raw)
        except FormatRefused:
            continue
        assert note.pack() == raw


def test_a_line_reads_back():
    signature = NoteSignature.parse(LINE)
    assert signature.line == LINE
    with pytest.raises(FormatRefused):
        NoteSignature.parse(LINE.removeprefix("\u2014 "))
