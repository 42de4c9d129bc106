"""The log's part of a receipt: this voucher, this log, these witnesses."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatRefused, LedgerError, ProofRefused, SignatureRefused
from ledger.log.checkpoint import (
    Checkpoint,
    cosign,
    log_key,
    sign_checkpoint,
    witness_key,
)
from ledger.log.entry import entry_hash, pack_entry
from ledger.log.proofs import LOG_PROOFS, LogProof
from ledger.log.tree import root_of
from ledger.voucher import SignedVoucher
from tests.support.ledger_world import Party

NETWORK, LEDGER, ANNA, BEN = map(Party, ("network", "ledger", "anna", "ben"))
IDS = {"network": NETWORK.id, "ledger": LEDGER.id}
POLICY = b"p" * 32
SIGNED = SignedVoucher(
    raw=b"voucher", worker_signature=b"w" * 64, backbone_signature=b"b" * 64
)
LEAF = entry_hash(pack_entry(SIGNED, POLICY))
FIRST, LAST = entry_hash(b"first"), entry_hash(b"last")
KEY = log_key(NETWORK.id, LEDGER.id)
HEAD = Checkpoint(KEY.name, 3, root_of([FIRST, LEAF, LAST]))
PLAIN = sign_checkpoint(HEAD, KEY, LEDGER.sign)
NOTE = cosign(PLAIN, witness_key("anna", ANNA.id), ANNA.sign, 5)
PROOF = LogProof(1, POLICY, (FIRST, LAST), NOTE)
MEMBERS = PROOF.to_members()


def test_it_reads_back_and_verifies():
    assert set(MEMBERS) == set(LOG_PROOFS)
    again = LogProof.from_members(json.loads(json.dumps(MEMBERS)))
    assert again == PROOF
    check = again.verify(SIGNED, **IDS, witnesses=[ANNA.id])
    assert (check.index, check.policy_hash, check.checkpoint) == (1, POLICY, HEAD)
    assert [each.time_s for each in check.cosigners] == [5]
    assert LogProof.from_members({"sum_tree": []}) is None


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"index": 0}, ProofRefused),
        ({"index": 3}, ProofRefused),
        ({"policy_hash": bytes(32)}, ProofRefused),
        ({"path": (LAST, FIRST)}, ProofRefused),
        ({"path": (FIRST,)}, ProofRefused),
        ({"note": dataclasses.replace(NOTE, signatures=())}, SignatureRefused),
    ],
    ids=range(6),
)
def test_another_place_terms_or_log(changes, error):
    with pytest.raises(error):
        dataclasses.replace(PROOF, **changes).verify(SIGNED, **IDS)


def test_another_voucher_signature_or_key():
    for changes in (
        {"raw": b"another"},
        {"worker_signature": b"x" * 64},
        {"backbone_signature": b"x" * 64},
    ):
        with pytest.raises(ProofRefused):
            PROOF.verify(dataclasses.replace(SIGNED, **changes), **IDS)
    for name in IDS:
        with pytest.raises(SignatureRefused):
            PROOF.verify(SIGNED, **{**IDS, name: BEN.id})


def test_every_witness_that_is_asked_for():
    for witnesses in ([BEN.id], [ANNA.id, BEN.id]):
        with pytest.raises(ProofRefused, match=BEN.id[:4].hex()):
            PROOF.verify(SIGNED, **IDS, witnesses=witnesses)
    with pytest.raises(ProofRefused):
        dataclasses.replace(PROOF, note=PLAIN).verify(
            SIGNED, **IDS, witnesses=[ANNA.id]
        )


INCLUSION = MEMBERS["log_inclusion"]


@pytest.mark.parametrize(
    "changes",
    [
        {"checkpoint": None},
        {"log_inclusion": None},
        {"log_inclusion": []},
        {"log_inclusion": {}},
        {"log_inclusion": {**INCLUSION, "more": 1}},
        {"log_inclusion": {**INCLUSION, "index": 1}},
        {"log_inclusion": {**INCLUSION, "index": "01"}},
        {"log_inclusion": {**INCLUSION, "index": "-1"}},
        {"log_inclusion": {**INCLUSION, "path": "00"}},
        {"log_inclusion": {**INCLUSION, "path": [1]}},
        {"log_inclusion": {**INCLUSION, "path": ["00"]}},
        {"log_inclusion": {**INCLUSION, "path": ["00" * 32] * 64}},
        {"log_inclusion": {**INCLUSION, "policy_hash": "P" * 64}},
        {"checkpoint": 7},
        {"checkpoint": "text"},
        {"checkpoint": "\ud800\n\n\u2014 a AAAAAAAA\n"},
        {"checkpoint": "x" * 70_000},
    ],
    ids=range(17),
)
def test_other_forms_are_refused(changes):
    with pytest.raises(FormatRefused):
        LogProof.from_members({**MEMBERS, **changes})


TEXT = json.dumps(MEMBERS)


@given(st.integers(0, len(TEXT) - 1), st.characters(codec="ascii"))
def test_a_changed_character_never_proves_another_place(at, character):
    text = TEXT[:at] + character + TEXT[at + 1 :]
    try:
        members = json.loads(text)
        proof = LogProof.from_members(members) if isinstance(members, dict) else None
        check = proof.verify(SIGNED, **IDS) if proof else None
    except (ValueError, LedgerError):
        return
    assert check is None or (check.index, check.checkpoint) == (1, HEAD)
