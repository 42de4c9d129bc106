"""Checkpoints: three lines, signed by ledger and witnesses, in exact bytes."""

import base64
from dataclasses import replace
from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatRefused, SignatureRefused
from ledger.log.checkpoint import (
    Checkpoint,
    cosign,
    cosigners_of,
    log_key,
    log_origin,
    sign_checkpoint,
    verify_checkpoint,
    verify_cosignature,
    witness_key,
)
from ledger.log.note import SignedNote
from tests.support.ledger_world import Party

NETWORK, LEDGER, ANNA, BEN = map(Party, ("network", "ledger", "anna", "ben"))
KEY = log_key(NETWORK.id, LEDGER.id)
HEAD = Checkpoint(log_origin(NETWORK.id), 70_000, sha256(b"root").digest())
NOTE = sign_checkpoint(HEAD, KEY, LEDGER.sign)
ANNAS = witness_key("witness.example/anna", ANNA.id)
BENS = witness_key("witness.example/ben", BEN.id)
TIME_S = 1_793_491_200


def test_the_text_is_origin_size_and_root():
    origin, size, root, end = HEAD.text.split("\n")
    assert origin == f"p2pmoe.ledger/{NETWORK.id.hex()}"
    assert (size, end) == ("70000", "")
    assert base64.b64decode(root) == HEAD.root
    assert Checkpoint.parse(HEAD.text) == HEAD


def test_a_signed_checkpoint_verifies_as_received():
    again = SignedNote.parse(NOTE.pack())
    assert again == NOTE
    assert verify_checkpoint(again, KEY) == HEAD


def test_witnesses_add_their_lines():
    note = cosign(NOTE, ANNAS, ANNA.sign, TIME_S)
    note = cosign(note, BENS, BEN.sign, TIME_S + 1)
    note = SignedNote.parse(note.pack())
    assert verify_checkpoint(note, KEY) == HEAD
    anna, ben = cosigners_of(note, (ANNA.id, BEN.id))
    assert (anna.name, anna.key, anna.time_s) == (ANNAS.name, ANNA.id, TIME_S)
    assert (ben.time_s, ben.line) == (TIME_S + 1, note.signatures[2].line)
    assert cosigners_of(note, (LEDGER.id, NETWORK.id)) == ()
    later = cosign(note, ANNAS, ANNA.sign, TIME_S + 9)
    assert len(later.signatures) == 3
    assert cosigners_of(later, (ANNA.id,))[0].time_s == TIME_S + 9


def test_a_cosignature_is_over_the_fixed_bytes():
    signature = cosign(NOTE, ANNAS, ANNA.sign, TIME_S).signatures[1]
    message = f"cosignature/v1\ntime {TIME_S}\n{HEAD.text}".encode()
    assert signature.signature == TIME_S.to_bytes(8, "big") + ANNA.sign(message)
    name_and_kind = ANNAS.name.encode() + b"\n\x04"
    assert signature.key_id == sha256(name_and_kind + ANNA.id).digest()[:4]
    assert verify_cosignature(HEAD.text, signature, ANNAS) == TIME_S


def test_what_a_cosignature_does_not_say():
    signature = cosign(NOTE, ANNAS, ANNA.sign, TIME_S).signatures[1]
    others = [
        (replace(HEAD, size=70_001).text, signature, ANNAS),
        (HEAD.text, signature, BENS),
        (HEAD.text, signature, witness_key("other", ANNA.id)),
        (HEAD.text, replace(signature, signature=signature.signature[:-1]), ANNAS),
        (HEAD.text, replace(signature, signature=b"\xff" * 72), ANNAS),
        (HEAD.text, NOTE.signatures[0], ANNAS),
    ]
    for text, line, key in others:
        with pytest.raises(SignatureRefused):
            verify_cosignature(text, line, key)
    # a ledger that signs as a witness of itself is seen as what it is: another key
    own = cosign(NOTE, witness_key(KEY.name, LEDGER.id), LEDGER.sign, TIME_S)
    assert cosigners_of(own, (ANNA.id,)) == ()


def test_another_logs_checkpoint_is_refused():
    other = log_key(Party("other").id, LEDGER.id)
    with pytest.raises(SignatureRefused):
        verify_checkpoint(NOTE, other)
    with pytest.raises(SignatureRefused):
        verify_checkpoint(NOTE, log_key(NETWORK.id, ANNA.id))
    # signed by the right key under the right name, but of another log
    foreign = sign_checkpoint(replace(HEAD, origin="elsewhere"), KEY, LEDGER.sign)
    with pytest.raises(FormatRefused, match="elsewhere"):
        verify_checkpoint(foreign, KEY)


def test_one_bad_line_of_a_known_key_spoils_the_note():
    bad = replace(NOTE.signatures[0], signature=bytes(64))
    with pytest.raises(SignatureRefused):
        verify_checkpoint(replace(NOTE, signatures=(NOTE.signatures[0], bad)), KEY)
    with pytest.raises(SignatureRefused):
        verify_checkpoint(replace(NOTE, signatures=()), KEY)


RAW = NOTE.pack()


@given(st.integers(0, len(RAW) * 8 - 1))
def test_no_flipped_bit_passes(bit):
    changed = bytearray(RAW)
    changed[bit // 8] ^= 1 << bit % 8
    with pytest.raises((FormatRefused, SignatureRefused)):
        verify_checkpoint(SignedNote.parse(bytes(changed)), KEY)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a\n1\n",
        HEAD.text + "extension\n",
        HEAD.text[:-1],
        HEAD.text.replace("70000", "070000"),
        HEAD.text.replace("70000", "-1"),
        HEAD.text.replace("70000", "+1"),
        HEAD.text.replace("70000", "9" * 19),
        HEAD.text.replace("70000", "9" * 5000),
        HEAD.text.replace("70000", "\u0667"),
        HEAD.text.replace("=\n", "\n"),
        "a\n1\nAAAA\n",
        "a\n1\n" + "\u00e9" * 44 + "\n",
        "a\n1\n" + HEAD.text.split("\n")[2][:-2] + "r=\n",
    ],
    ids=range(14),
)
def test_other_texts_are_refused(text):
    with pytest.raises(FormatRefused):
        Checkpoint.parse(text)
