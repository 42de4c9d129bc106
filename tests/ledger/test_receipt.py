"""The receipt: one file that proves one serving, and nothing else does."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatRefused, LedgerError, ProofRefused
from ledger.grant import sign_grant
from ledger.leaf import Leaf
from ledger.log.checkpoint import (
    Checkpoint,
    cosign,
    log_key,
    sign_checkpoint,
    witness_key,
)
from ledger.log.entry import entry_hash, pack_entry
from ledger.log.proofs import LogProof
from ledger.log.tree import root_of
from ledger.merkle import Node, inclusion_path, leaf_hash
from ledger.prices import sign_price_table
from ledger.receipt import Receipt, position_of, verify_receipt
from tests.support.ledger_world import Party, paper_tab

SERVINGS = (0, 1, 2, 5, 6, 9)


def receipt_of(serving: int = 5) -> tuple[Receipt, dict[str, bytes]]:
    tab = paper_tab()
    world = tab.world
    signed, _ = tab.next(*SERVINGS)
    leaves = [tab.leaves[s] for s in SERVINGS]
    nodes = [Node(leaf_hash(raw), Leaf.parse(raw).amount_uc) for raw in leaves]
    position = SERVINGS.index(serving)
    grant, prices = tab.grant.pack(), world.prices.pack()
    receipt = Receipt(
        leaf=leaves[position],
        path=inclusion_path(nodes, position),
        signed=signed,
        grant=grant,
        grant_signature=sign_grant(grant, world.ledger.sign),
        prices=prices,
        price_signature=sign_price_table(prices, world.market.sign),
        other_proofs={},
    )
    ids = {
        "network": world.network.id,
        "ledger": world.ledger.id,
        "market": world.market.id,
    }
    return receipt, ids


RECEIPT, IDS = receipt_of()
TEXT = RECEIPT.to_json()


@pytest.mark.parametrize("serving", SERVINGS)
def test_every_serving_proves_itself_offline(serving):
    receipt, ids = receipt_of(serving)
    again = Receipt.from_json(receipt.to_json())
    assert again == receipt
    assert again.to_json() == receipt.to_json()
    check = verify_receipt(again, **ids)
    assert check.leaf.serving == serving
    assert check.unchecked == ()


def test_positions():
    ranges = ((0, 2), (5, 6), (9, 9))
    assert [position_of(ranges, s) for s in SERVINGS] == list(range(6))
    with pytest.raises(ProofRefused):
        position_of(ranges, 3)


@pytest.mark.parametrize("name", ["network", "ledger", "market"])
def test_another_networks_receipt_is_refused(name):
    with pytest.raises(LedgerError):
        verify_receipt(RECEIPT, **{**IDS, name: Party("other").id})


def test_any_other_leaf_is_refused():
    leaf = Leaf.parse(RECEIPT.leaf)
    for changes in (
        {"rows": leaf.rows + 1},
        {"amount_uc": leaf.amount_uc + 1},
        {"serving": 6},
        {"serving": 3},
        {"tab": b"another!"},
        {"price_epoch": 1},
        {"out_hash": bytes(16)},
    ):
        forged = dataclasses.replace(
            RECEIPT, leaf=dataclasses.replace(leaf, **changes).pack()
        )
        with pytest.raises(LedgerError):
            verify_receipt(forged, **IDS)


def test_a_grant_of_another_pair_is_refused():
    tab = paper_tab()
    other = dataclasses.replace(tab.grant, worker=Party("other").id).pack()
    forged = dataclasses.replace(
        RECEIPT, grant=other, grant_signature=sign_grant(other, tab.world.ledger.sign)
    )
    with pytest.raises(LedgerError, match="grant"):
        verify_receipt(forged, **IDS)


@given(st.integers(0, len(TEXT) - 1), st.sampled_from("0f ,}x9"))
def test_a_changed_character_never_changes_what_is_proved(at, character):
    text = TEXT[:at] + character + TEXT[at + 1 :]
    try:
        check = verify_receipt(Receipt.from_json(text), **IDS)
    except LedgerError:
        return
    assert check.leaf == Leaf.parse(RECEIPT.leaf)


def logged_receipt() -> tuple[Receipt, Party]:
    """The receipt, its voucher as entry 1 of a log of 3, seen by a witness."""
    network, ledger, anna = Party("network"), Party("ledger"), Party("anna")
    policy = bytes(32)
    leaf = entry_hash(pack_entry(RECEIPT.signed, policy))
    others = entry_hash(b"first"), entry_hash(b"last")
    root = root_of([others[0], leaf, others[1]])
    key = log_key(network.id, ledger.id)
    note = sign_checkpoint(Checkpoint(key.name, 3, root), key, ledger.sign)
    note = cosign(note, witness_key("anna", anna.id), anna.sign, 1_793_491_200)
    proof = LogProof(1, policy, others, note)
    return dataclasses.replace(RECEIPT, other_proofs=proof.to_members()), anna


def test_a_closed_vouchers_receipt_shows_it_in_the_log():
    logged, anna = logged_receipt()
    again = Receipt.from_json(logged.to_json())
    assert again == logged
    check = verify_receipt(again, **IDS, logged=True, witnesses=[anna.id])
    assert check.unchecked == ()
    assert (check.log.index, check.log.checkpoint.size) == (1, 3)
    assert [each.name for each in check.log.cosigners] == ["anna"]
    assert verify_receipt(again, **IDS).log.cosigners == ()
    assert verify_receipt(RECEIPT, **IDS).log is None


def test_a_log_proof_that_is_demanded_or_wrong():
    logged, anna = logged_receipt()
    for wanted in ({"logged": True}, {"witnesses": [anna.id]}):
        with pytest.raises(ProofRefused, match="does not show"):
            verify_receipt(RECEIPT, **IDS, **wanted)
    with pytest.raises(ProofRefused, match="not cosigned by"):
        verify_receipt(logged, **IDS, witnesses=[anna.id, Party("ben").id])
    inclusion = dict(logged.other_proofs["log_inclusion"], index="2")
    moved = {**logged.other_proofs, "log_inclusion": inclusion}
    with pytest.raises(ProofRefused):
        verify_receipt(dataclasses.replace(RECEIPT, other_proofs=moved), **IDS)


def test_further_proofs_are_kept_and_never_called_checked():
    later = dataclasses.replace(RECEIPT, other_proofs={"log": {"index": "7"}})
    again = Receipt.from_json(later.to_json())
    assert again == later
    assert verify_receipt(again, **IDS).unchecked == ("log",)


def changed(**members: object) -> str:
    return json.dumps({**json.loads(TEXT), **members})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{",
        "[" * 100_000,
        TEXT.replace('"leaf"', '"leaf": "00", "leaf"', 1),
        changed(extra=1),
        changed(leaf=1.5),
        changed(leaf="0"),
        changed(leaf=RECEIPT.leaf.hex().upper()),
        changed(leaf=RECEIPT.leaf.hex(" ")),
        changed(format="p2pmoe receipt 2"),
        changed(voucher=[]),
        changed(grant={"bytes": None}),
        changed(proofs={"sum_tree": None}),
        changed(proofs={"sum_tree": [{}]}),
        changed(proofs={"sum_tree": [{"hash": "00" * 32, "sum_uc": 5}]}),
        changed(proofs={"sum_tree": [{"hash": "00" * 32, "sum_uc": "05"}]}),
        changed(proofs={"sum_tree": [{"hash": "00" * 32, "sum_uc": "٣"}]}),
        changed(proofs={"sum_tree": [{"hash": "00", "sum_uc": "5"}]}),
        TEXT.replace('"sum_uc": "', '"sum_uc": "9' + "9" * 20, 1),
        TEXT.replace('"proofs"', '"proofs": NaN, "proofs"'),
        " " * (9 << 20),
    ],
    ids=range(22),
)
def test_loose_json_is_refused(text):
    with pytest.raises(FormatRefused):
        Receipt.from_json(text)
