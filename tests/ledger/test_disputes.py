"""Disputes through the store: opened, answered, judged, or ended by the clock."""

import dataclasses

import pytest

from ledger.accounts import AccountKind
from ledger.audit import verify_ledger
from ledger.closings import ClosedState, HoldbackState
from ledger.dispute_rows import DisputeState, disputes_where, papers_of
from ledger.errors import (
    DisputeRefused,
    FormatRefused,
    LedgerError,
    NotFound,
    ProofRefused,
    SignatureRefused,
)
from ledger.leaf import Leaf
from tests.support.dispute_papers import (
    answer_of,
    claim_of,
    opened_rows,
    signed_answer,
    signed_claim,
)
from tests.support.disputes import (
    answered,
    closed_tab,
    closing_of,
    judged,
    opened,
    tend,
)
from tests.support.ledger_world import HOUR_US, Party, held


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path) as store:
        yield store
        verify_ledger(store.reader(), world.identity)


def disputes(store):
    with store.reader().session() as connection:
        return disputes_where(connection)


def test_a_wrong_result_costs_the_voucher_and_its_holdback(world, store):
    tab = closed_tab(world, store)
    amount_uc = tab.previous.amount_uc
    claim = claim_of(tab, 1)
    found = opened(store, claim, tab.backbone)
    assert (found["state"], found["reason"]) == ("open", "wrong_results")
    assert closing_of(store).state is ClosedState.DISPUTED
    wrong = judged(store, found["id"], bytes(16))
    assert wrong["outcome"] == "upheld"
    net_uc, held_uc = wrong["reversed_uc"], wrong["forfeited_uc"]
    assert (net_uc, held_uc) == (amount_uc - amount_uc // 10, amount_uc // 10)
    state = closing_of(store)
    assert (state.state, state.holdback) == (
        ClosedState.REVERSED,
        HoldbackState.FORFEITED,
    )
    assert state.released_us == state.holdback_us == world.now_us
    assert held(store, AccountKind.WORKER_PENDING) == 0
    assert held(store, AccountKind.WORKER_HELD) == 0
    assert held(store, AccountKind.PENALTY) == held_uc
    deposit = held(store, AccountKind.CLIENT_DEPOSIT)
    reserved = held(store, AccountKind.CLIENT_RESERVED)
    assert deposit + reserved == 1_000_000_000 - held_uc
    [row] = disputes(store)
    assert row.verdict == f"recomputed {'00' * 16} by numpy"
    assert row.decided_us == world.now_us
    world.now_us += 1000 * HOUR_US
    tend(store)
    assert held(store, AccountKind.WORKER_AVAILABLE) == 0


def test_every_step_on_both_databases(world, ledger_database):
    with world.open(ledger_database) as store:
        tab = closed_tab(world, store)
        first, second = (claim_of(tab, serving) for serving in (0, 1))
        third = claim_of(tab, 1, by_worker=True)
        numbers = [opened(store, each, tab.backbone)["id"] for each in (first, second)]
        opened(store, third, tab.worker)
        answer = answer_of(tab, first)
        assert answered(store, answer, tab.worker)["state"] == "answered"
        judged(store, numbers[0], first.leaf.out_hash)
        world.now_us += 24 * HOUR_US
        tend(store)
        rows = disputes(store)
        assert [row.state.value for row in rows] == ["dismissed", "upheld", "dismissed"]
        assert rows[2].verdict == f"voucher reversed by dispute {numbers[1]}"
        with store.reader().session() as connection:
            assert papers_of(connection, numbers[0]).answer == answer.pack()
        assert opened(store, first, tab.backbone)["id"] == numbers[0]
        verify_ledger(store.reader(), world.identity)


def test_a_right_result_dismisses_it_and_the_worker_is_paid_when_due(world, store):
    tab = closed_tab(world, store)
    claim = claim_of(tab, 1)
    number = opened(store, claim, tab.backbone)["id"]
    dry = judged(store, number, claim.leaf.out_hash, commit=False)
    assert (dry["committed"], dry["outcome"]) == (False, "dismissed")
    assert disputes(store)[0].state is DisputeState.OPEN
    assert judged(store, number, claim.leaf.out_hash)["reversed_uc"] == 0
    assert closing_of(store).state is ClosedState.CLOSED
    world.now_us += 48 * HOUR_US
    tend(store)
    assert closing_of(store).state is ClosedState.RELEASED
    assert held(store, AccountKind.PENALTY) == 0
    with pytest.raises(DisputeRefused, match="is dismissed"):
        judged(store, number, bytes(16))


def test_nothing_is_released_while_a_dispute_is_pending(world, store):
    tab = closed_tab(world, store, answer_us=100 * HOUR_US, retention_us=200 * HOUR_US)
    opened(store, claim_of(tab, 0), tab.backbone)
    world.now_us += 99 * HOUR_US  # the window and the holdback's time are over
    tend(store)
    state = closing_of(store)
    assert (state.state, state.holdback) == (ClosedState.DISPUTED, HoldbackState.HELD)
    assert held(store, AccountKind.WORKER_AVAILABLE) == 0


def test_no_answer_in_time_loses(world, store):
    tab = closed_tab(world, store)
    claim = claim_of(tab, 0)
    opened(store, claim, tab.backbone)
    world.now_us += 24 * HOUR_US - 1
    tend(store)
    assert disputes(store)[0].state is DisputeState.OPEN
    world.now_us += 1
    tend(store)
    [row] = disputes(store)
    assert (row.state, row.verdict) == (DisputeState.UPHELD, "no answer in time")
    assert closing_of(store).state is ClosedState.REVERSED
    with pytest.raises(DisputeRefused, match="is upheld"):
        answered(store, answer_of(tab, claim), tab.worker)


def test_an_answer_waits_for_the_referee_and_without_one_the_worker_wins(world, store):
    tab = closed_tab(world, store)
    claim = claim_of(tab, 1)
    opened(store, claim, tab.backbone)
    world.now_us += 20 * HOUR_US
    answer = answer_of(tab, claim)
    found = answered(store, answer, tab.worker)
    assert found["state"] == "answered"
    assert found["judge_due_us"] == world.now_us + 24 * HOUR_US
    assert answered(store, answer, tab.worker) == found  # again: the same
    world.now_us += 24 * HOUR_US - 1
    tend(store)
    assert disputes(store)[0].state is DisputeState.ANSWERED
    world.now_us += 1
    tend(store)
    [row] = disputes(store)
    assert (row.state, row.verdict) == (DisputeState.DISMISSED, "no referee in time")
    assert closing_of(store).state is ClosedState.CLOSED


def test_a_worker_may_have_the_rows_shown(world, store):
    tab = closed_tab(world, store)
    claim = claim_of(tab, 1, by_worker=True)
    found = opened(store, claim, tab.worker)
    assert (found["reason"], found["opened_by"]) == ("unknown_rows", "worker")
    with pytest.raises(DisputeRefused, match="an answer decides it"):
        judged(store, found["id"], bytes(16))
    found = answered(store, answer_of(tab, claim), tab.backbone)
    assert (found["state"], found["verdict"]) == ("dismissed", "the rows were opened")
    assert closing_of(store).state is ClosedState.CLOSED


def test_a_backbone_that_shows_no_rows_is_on_record_and_the_worker_is_paid(
    world, store
):
    tab = closed_tab(world, store)
    opened(store, claim_of(tab, 1, by_worker=True), tab.worker)
    world.now_us += 48 * HOUR_US
    tend(store)
    [row] = disputes(store)
    assert (row.state, row.verdict) == (DisputeState.UPHELD, "no answer in time")
    assert closing_of(store).state is ClosedState.RELEASED


def test_a_reversed_voucher_ends_its_other_disputes(world, store):
    tab = closed_tab(world, store)
    first = opened(store, claim_of(tab, 0), tab.backbone)["id"]
    opened(store, claim_of(tab, 1), tab.backbone)
    opened(store, claim_of(tab, 1, by_worker=True), tab.worker)
    dry = judged(store, first, None)
    assert dry["outcome"] == "upheld"
    rows = disputes(store)
    assert [row.state.value for row in rows] == ["upheld", "dismissed", "dismissed"]
    assert rows[0].verdict == "recomputed nothing by numpy"
    assert rows[1].verdict == f"voucher reversed by dispute {first}"


def test_one_decision_leaves_the_voucher_disputed_while_others_are_pending(
    world, store
):
    tab = closed_tab(world, store)
    first, second = (claim_of(tab, serving) for serving in (0, 1))
    numbers = [opened(store, each, tab.backbone)["id"] for each in (first, second)]
    judged(store, numbers[0], first.leaf.out_hash)
    assert closing_of(store).state is ClosedState.DISPUTED
    judged(store, numbers[1], second.leaf.out_hash)
    assert closing_of(store).state is ClosedState.CLOSED


def test_two_that_end_at_once_end_in_their_order(world, store):
    tab = closed_tab(world, store)
    for serving in (0, 1):
        opened(store, claim_of(tab, serving), tab.backbone)
    world.now_us += 24 * HOUR_US
    tend(store)
    rows = disputes(store)
    assert [row.verdict for row in rows] == [
        "no answer in time",
        f"voucher reversed by dispute {rows[0].id}",
    ]


def test_claims_that_are_not_taken(world, store):
    tab = closed_tab(world, store)
    claim = claim_of(tab, 1)
    thief = Party("thief")
    other = dataclasses.replace(claim.leaf, nonce=b"another!")
    unknown = dataclasses.replace(claim.leaf, serving=77)
    for bad, signer, error in (
        (claim, thief, SignatureRefused),
        (dataclasses.replace(claim, opener=thief.id), thief, DisputeRefused),
        (dataclasses.replace(claim, opener=tab.worker.id), tab.worker, DisputeRefused),
        (dataclasses.replace(claim, voucher=bytes(32)), tab.backbone, NotFound),
        (dataclasses.replace(claim, network=thief.id), tab.backbone, DisputeRefused),
        (dataclasses.replace(claim, leaf=other), tab.backbone, DisputeRefused),
        (dataclasses.replace(claim, leaf=unknown), tab.backbone, DisputeRefused),
    ):
        with pytest.raises(error):
            opened(store, bad, signer)
    raw, signature = signed_claim(claim, tab.backbone)
    for params in (
        {"claim": raw.hex(), "signature": signature.hex(), "commit": True},
        {"claim": raw.hex()},
        {"claim": "zz", "signature": signature.hex()},
        {"claim": raw[:-1].hex(), "signature": signature.hex()},
    ):
        with pytest.raises(LedgerError):
            store.operate("dispute.open", params).result(60)
    assert disputes(store) == []
    assert closing_of(store).state is ClosedState.CLOSED


def test_the_same_claim_is_one_dispute_and_another_about_its_leaf_is_refused(
    world, store
):
    tab = closed_tab(world, store)
    claim = claim_of(tab, 1)
    first = opened(store, claim, tab.backbone)
    assert opened(store, claim, tab.backbone) == first
    again = dataclasses.replace(claim, issued_us=claim.issued_us + 1)
    with pytest.raises(DisputeRefused, match="about serving 1 already"):
        opened(store, again, tab.backbone)
    judged(store, first["id"], claim.leaf.out_hash)
    assert opened(store, claim, tab.backbone)["state"] == "dismissed"
    with pytest.raises(DisputeRefused, match="already"):
        opened(store, again, tab.backbone)


def test_a_voucher_has_room_for_sixteen(world, store):
    tab = closed_tab(world, store, n_servings=17)
    for serving in range(16):
        opened(store, claim_of(tab, serving), tab.backbone)
    with pytest.raises(DisputeRefused, match="at most 16"):
        opened(store, claim_of(tab, 16), tab.backbone)


def test_the_window_is_half_open(world, store):
    tab = closed_tab(world, store)
    world.now_us += 48 * HOUR_US
    with pytest.raises(NotFound, match="could be disputed until"):
        opened(store, claim_of(tab, 0), tab.backbone)
    world.now_us -= 1  # the ledger's time does not go back
    with pytest.raises(NotFound):
        opened(store, claim_of(tab, 0), tab.backbone)


def test_an_open_tab_cannot_be_disputed(world, store):
    tab = world.tab(store.grant(world.order()).result(60))
    tab.file(store, 0, 1)
    with pytest.raises(NotFound, match="no tab was closed"):
        opened(store, claim_of(tab, 0), tab.backbone)


def test_answers_that_are_not_taken(world, store):
    tab = closed_tab(world, store)
    claim = claim_of(tab, 1)
    opened(store, claim, tab.backbone)
    answer = answer_of(tab, claim)
    thief = Party("thief")
    for bad, signer, error in (
        (answer, thief, SignatureRefused),
        (dataclasses.replace(answer, respondent=thief.id), thief, NotFound),
        (dataclasses.replace(answer, claim=bytes(32)), tab.worker, NotFound),
        (dataclasses.replace(answer, network=thief.id), tab.worker, ProofRefused),
        (dataclasses.replace(answer, opening=opened_rows(1)), tab.worker, ProofRefused),
        (answer_of(tab, claim_of(tab, 2)), tab.worker, NotFound),
    ):
        with pytest.raises(error):
            answered(store, bad, signer)
    raw, signature = signed_answer(answer, tab.worker)
    params = {"answer": raw[:-1].hex(), "signature": signature.hex()}
    with pytest.raises(FormatRefused):
        store.operate("dispute.answer", params).result(60)
    assert disputes(store)[0].state is DisputeState.OPEN
    answered(store, answer, tab.worker)
    changed = dataclasses.replace(answer, issued_us=answer.issued_us + 1)
    with pytest.raises(DisputeRefused, match="is answered"):
        answered(store, changed, tab.worker)


def test_judgements_that_are_not_taken(world, store):
    tab = closed_tab(world, store)
    number = opened(store, claim_of(tab, 1), tab.backbone)["id"]
    good = {"id": number, "recomputed": "00" * 16, "referee": "numpy", "commit": True}
    for changes in (
        {"id": number + 1},
        {"id": "1"},
        {"recomputed": "00"},
        {"recomputed": "00" * 17},
        {"referee": "a\nb"},
        {"commit": 1},
    ):
        with pytest.raises(LedgerError):
            store.operate("dispute.judge", good | changes).result(60)
    assert disputes(store)[0].state is DisputeState.OPEN


def test_a_leaf_that_the_ledger_has_may_be_anywhere_in_the_tab(world, store):
    tab = closed_tab(world, store, n_servings=9)
    claim = claim_of(tab, 8)
    assert claim.leaf == Leaf.parse(tab.leaves[8])
    assert opened(store, claim, tab.backbone)["serving"] == 8
