"""Equivocation proofs: made from two filings, checked from bytes alone."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.equivocation import (
    MAX_PROOF_BYTES,
    EquivocationProof,
    equivocations,
    verify_equivocation,
)
from ledger.errors import FormatRefused, LedgerError, ProofRefused, SignatureRefused
from ledger.voucher import SignedVoucher, sign_voucher
from tests.support.ledger_world import Party, TabSide, paper_tab


def two_bodies(tab: TabSide) -> tuple[SignedVoucher, SignedVoucher]:
    """Two vouchers of one number, both signed by both."""
    tab.serve(0, 1)
    voucher = tab.draft()
    other = dataclasses.replace(voucher, amount_uc=voucher.amount_uc + 1)
    return tab.sign(voucher), tab.sign(other)


def by_raw(signed: SignedVoucher) -> bytes:
    return signed.raw


def proof_of_worker() -> tuple[TabSide, EquivocationProof]:
    tab = paper_tab()
    left, right = two_bodies(tab)
    return tab, equivocations(left, right)[0]


def test_both_signers_are_proven_and_named_alike_from_either_side():
    tab = paper_tab()
    left, right = two_bodies(tab)
    proofs = equivocations(left, right)
    assert proofs == equivocations(right, left)
    assert [proof.signer for proof in proofs] == [tab.worker.id, tab.backbone.id]
    assert len({proof.name for proof in proofs}) == 2
    for proof, is_worker in zip(proofs, (True, False), strict=True):
        found = verify_equivocation(proof, tab.world.network.id)
        assert (found.signer, found.is_worker) == (proof.signer, is_worker)
        assert (found.key, found.number) == (tab.previous.key, 1)
        assert EquivocationProof.parse(proof.pack()) == proof


def test_a_signature_is_no_part_of_the_name():
    _, proof = proof_of_worker()
    assert dataclasses.replace(proof, first_signature=bytes(64)).name == proof.name
    assert dataclasses.replace(proof, signer=bytes(32)).name != proof.name


def test_who_signed_once_is_not_accused():
    tab = paper_tab()
    left, right = two_bodies(tab)
    unsigned = dataclasses.replace(right, worker_signature=bytes(64))
    assert [p.signer for p in equivocations(left, unsigned)] == [tab.backbone.id]
    assert equivocations(left, left) == ()
    later = dataclasses.replace(tab.previous, number=2, previous=b"p" * 32)
    assert equivocations(left, tab.sign(later)) == ()
    elsewhere = dataclasses.replace(tab.previous, tab=b"another!")
    assert equivocations(left, tab.sign(elsewhere)) == ()


def test_what_is_no_proof():
    tab, proof = proof_of_worker()
    change = dataclasses.replace
    thief = Party("thief")
    by_thief = [sign_voucher(raw, thief.sign) for raw in (proof.first, proof.second)]
    swapped = EquivocationProof(
        proof.signer,
        proof.second,
        proof.second_signature,
        proof.first,
        proof.first_signature,
    )
    later = dataclasses.replace(tab.previous, number=2, previous=b"p" * 32).pack()
    for bad, error in (
        (swapped, ProofRefused),
        (change(proof, second=proof.first), ProofRefused),
        (change(proof, signer=thief.id), ProofRefused),
        (change(proof, signer=tab.backbone.id), SignatureRefused),
        (change(proof, first_signature=by_thief[0]), SignatureRefused),
        (change(proof, second_signature=proof.first_signature), SignatureRefused),
        (change(proof, second=later), ProofRefused),
        (change(proof, second=proof.second + b"\0"), FormatRefused),
    ):
        with pytest.raises(error):
            verify_equivocation(bad, tab.world.network.id)
    with pytest.raises(ProofRefused, match="another network"):
        verify_equivocation(proof, Party("elsewhere").id)


def test_two_networks_are_no_equivocation_in_either():
    tab = paper_tab()
    tab.serve(0)
    voucher = tab.draft()
    abroad = dataclasses.replace(voucher, network=Party("elsewhere").id)
    one, other = sorted((tab.sign(each) for each in (voucher, abroad)), key=by_raw)
    assert equivocations(one, other) == ()
    proof = EquivocationProof(
        tab.worker.id, one.raw, one.worker_signature, other.raw, other.worker_signature
    )
    for network in (voucher.network, abroad.network):
        with pytest.raises(ProofRefused, match="two networks"):
            verify_equivocation(proof, network)


def test_b39_every_wrong_bit_is_refused():
    tab, proof = proof_of_worker()
    raw = proof.pack()
    for bit in range(0, 8 * len(raw), 5):
        wrong = bytearray(raw)
        wrong[bit // 8] ^= 1 << bit % 8
        with pytest.raises(LedgerError):
            verify_equivocation(
                EquivocationProof.parse(bytes(wrong)), tab.world.network.id
            )


def test_files_that_are_cut_or_too_long():
    _, proof = proof_of_worker()
    raw = proof.pack()
    for bad in (b"", raw[:-1], raw + b"\0", raw[:40], bytes(MAX_PROOF_BYTES + 1)):
        with pytest.raises(FormatRefused):
            EquivocationProof.parse(bad)
    with pytest.raises(FormatRefused):
        dataclasses.replace(proof, first_signature=b"").pack()


@given(st.binary(max_size=300))
def test_noise_is_refused(raw):
    with pytest.raises(FormatRefused):
        EquivocationProof.parse(b"PMEQ\1" + raw)
