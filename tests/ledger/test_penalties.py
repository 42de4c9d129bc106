"""Equivocation found in filings, or reported: the proof is kept, holdbacks are lost."""

import dataclasses

import pytest
from sqlalchemy import func, select

from ledger import penalties as module
from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.closings import ClosedState, HoldbackState
from ledger.equivocation import EquivocationProof, equivocations, verify_equivocation
from ledger.errors import LedgerError, ProofRefused, SignatureRefused
from ledger.schema_closing import closing, equivocation
from ledger.voucher import SignedVoucher
from tests.support.dispute_papers import claim_of
from tests.support.disputes import closed_tab, closing_of, judged, opened
from tests.support.ledger_world import HOUR_US, Party, TabSide, held


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path) as store:
        yield store
        verify_ledger(store.reader(), world.identity)


def other_body(tab: TabSide, **changes: object) -> SignedVoucher:
    """Another voucher of the tab's newest number, signed by both."""
    changes = changes or {"issued_us": tab.previous.issued_us + 1}
    return tab.sign(dataclasses.replace(tab.previous, **changes))


def file(store, tab: TabSide, signed: SignedVoucher) -> str:
    return store.file(signed, b"", tab.backbone.id).result(60).reason


def proofs(store) -> list[EquivocationProof]:
    with store.reader().session() as connection:
        rows = connection.execute(select(equivocation).order_by(equivocation.c.signer))
        return [
            EquivocationProof(
                row.signer,
                row.first_raw,
                row.first_signature,
                row.second_raw,
                row.second_signature,
            )
            for row in rows
        ]


def report(store, proof: EquivocationProof, *, commit: bool = True):
    params = {"proof": proof.pack().hex(), "commit": commit}
    return store.operate("equivocation.report", params).result(60)


def test_two_filings_of_one_number_convict_both_signers(world, ledger_database):
    with world.open(ledger_database) as store:
        tab = closed_tab(world, store)
        held_uc = tab.previous.amount_uc // 10
        assert held(store, AccountKind.WORKER_HELD) == held_uc
        assert file(store, tab, other_body(tab)) == "equivocation"
        found = proofs(store)
        assert {proof.signer for proof in found} == {tab.worker.id, tab.backbone.id}
        for proof in found:
            verify_equivocation(proof, world.network.id)
        assert held(store, AccountKind.WORKER_HELD) == 0
        assert held(store, AccountKind.PENALTY) == held_uc
        state = closing_of(store)
        assert state.state is ClosedState.CLOSED
        assert state.holdback is HoldbackState.FORFEITED
        assert state.holdback_us == world.now_us
        verify_ledger(store.reader(), world.identity)


def test_it_is_found_before_the_tab_closes_and_whatever_else_is_wrong(world, store):
    tab = world.tab(store.grant(world.order()).result(60))
    tab.file(store, 0, 1)
    assert file(store, tab, other_body(tab, grant_hash=bytes(32))) == "grant"
    assert len(proofs(store)) == 2


def test_the_same_proof_is_kept_once_and_costs_once(world, store):
    tab = closed_tab(world, store)
    signed = other_body(tab)
    for _ in range(3):
        file(store, tab, signed)
    assert len(proofs(store)) == 2
    later = world.tab(store.grant(world.order()).result(60), tab=b"tab-0002")
    assert later.file(store, 0, final=True).status == 0
    file(store, tab, signed)
    answer = report(store, proofs(store)[0])
    assert (answer["known"], answer["forfeited_uc"]) == (True, 0)
    assert held(store, AccountKind.WORKER_HELD) == later.previous.amount_uc // 10


def test_further_bodies_of_a_number_prove_nothing_new(world, store):
    tab = closed_tab(world, store)
    for later_us in range(1, 5):
        signed = other_body(tab, issued_us=tab.previous.issued_us + later_us)
        assert file(store, tab, signed) == "equivocation"
    assert len(proofs(store)) == 2


def test_of_one_signer_only_so_many_are_kept(world, store, monkeypatch):
    monkeypatch.setattr(module, "_MAX_OF_SIGNER", 3)
    tab = world.tab(store.grant(world.order()).result(60))
    for serving in range(5):
        tab.file(store, serving)
        assert file(store, tab, other_body(tab)) == "equivocation"
    assert len(proofs(store)) == 6  # three of each signer


def test_proofs_that_cost_nothing_buy_no_pardon_for_later(world, store, monkeypatch):
    monkeypatch.setattr(module, "_MAX_OF_SIGNER", 1)
    early = world.tab(store.grant(world.order()).result(60), tab=b"tab-0002")
    early.file(store, 0)
    file(store, early, other_body(early))  # nothing is held yet
    tab = closed_tab(world, store)
    assert held(store, AccountKind.WORKER_HELD) > 0
    assert file(store, tab, other_body(tab)) == "equivocation"
    assert held(store, AccountKind.WORKER_HELD) == 0
    assert [proof.signer for proof in proofs(store)].count(tab.worker.id) == 2
    file(store, tab, other_body(tab))
    assert len(proofs(store)) == 3


def test_all_that_is_held_of_the_worker_is_lost_and_nothing_of_others(world, store):
    tab = closed_tab(world, store)
    second = world.tab(store.grant(world.order()).result(60), tab=b"tab-0002")
    second.file(store, 0, 1, final=True)
    other = Party("other worker")
    issued = store.grant(world.order(worker=other)).result(60)
    third = world.tab(issued, worker=other, tab=b"tab-0003")
    third.file(store, 0, 1, final=True)
    lost_uc = tab.previous.amount_uc // 10 + second.previous.amount_uc // 10
    file(store, tab, other_body(tab))
    assert held(store, AccountKind.PENALTY) == lost_uc
    assert held(store, AccountKind.WORKER_HELD) == third.previous.amount_uc // 10


def test_a_disputed_voucher_loses_its_holdback_once(world, store):
    tab = closed_tab(world, store)
    number = opened(store, claim_of(tab, 0), tab.backbone)["id"]
    file(store, tab, other_body(tab))
    assert closing_of(store).state is ClosedState.DISPUTED
    assert judged(store, number, None)["forfeited_uc"] == 0
    assert closing_of(store).state is ClosedState.REVERSED
    assert held(store, AccountKind.PENALTY) == tab.previous.amount_uc // 10


def test_what_was_given_back_stays(world, store):
    tab = closed_tab(world, store)
    world.now_us += 60 * HOUR_US
    store.tend()
    file(store, tab, other_body(tab))
    assert held(store, AccountKind.PENALTY) == 0
    with store.reader().session() as connection:
        assert connection.execute(select(closing.c.holdback)).scalar_one() == "released"


def test_a_proof_from_elsewhere_is_checked_and_says_first_what_it_costs(world, store):
    """As a backbone has it that was sent two proposals of one number."""
    tab = closed_tab(world, store)
    left, right = tab.sign(tab.previous), other_body(tab)
    proposals = [
        dataclasses.replace(each, backbone_signature=b"") for each in (left, right)
    ]
    [proof] = equivocations(*proposals)
    dry = report(store, proof, commit=False)
    lost_uc = tab.previous.amount_uc // 10
    assert (dry["signer_is"], dry["forfeited_uc"]) == ("worker", lost_uc)
    assert proofs(store) == []
    assert report(store, proof) == dry | {"committed": True}
    assert held(store, AccountKind.PENALTY) == lost_uc
    assert proofs(store) == [proof]


def test_a_backbones_proof_costs_nobody_anything(world, store):
    tab = closed_tab(world, store)
    halves = [
        dataclasses.replace(each, worker_signature=b"")
        for each in (tab.sign(tab.previous), other_body(tab))
    ]
    [proof] = equivocations(*halves)
    answer = report(store, proof)
    assert (answer["signer_is"], answer["holdbacks"]) == ("backbone", 0)
    assert held(store, AccountKind.WORKER_HELD) == tab.previous.amount_uc // 10


def test_a_held_final_and_another_of_its_number_convict_the_backbone(world, store):
    tab = world.tab(store.grant(world.order()).result(60))
    block = tab.serve(0, 1)
    voucher = tab.draft(final=True)
    alone = dataclasses.replace(tab.sign(voucher), worker_signature=b"")
    assert store.file(alone, block, tab.backbone.id).result(60).reason == "held"
    other = tab.sign(dataclasses.replace(voucher, root=bytes(32)))
    assert store.file(other, block, tab.backbone.id).result(60).reason == "chain"
    [proof] = proofs(store)
    assert proof.signer == tab.backbone.id


@pytest.mark.parametrize("commit", [False, True])
def test_what_is_no_proof_changes_nothing(world, store, commit):
    tab = closed_tab(world, store)
    proof = equivocations(tab.sign(tab.previous), other_body(tab))[0]
    for bad, error in (
        (dataclasses.replace(proof, second=proof.first), ProofRefused),
        (dataclasses.replace(proof, second_signature=bytes(64)), SignatureRefused),
    ):
        with pytest.raises(error):
            report(store, bad, commit=commit)
    for params in ({}, {"proof": "00"}, {"proof": proof.pack().hex(), "x": 1}):
        with pytest.raises(LedgerError):
            store.operate("equivocation.report", params).result(60)
    assert held(store, AccountKind.WORKER_HELD) == tab.previous.amount_uc // 10
    with store.reader().session() as connection:
        n_proofs = select(func.count()).select_from(equivocation)
        assert connection.execute(n_proofs).scalar_one() == 0
