"""Disputes as rows: found by number or condition, in the order they were opened."""

import dataclasses

import pytest

from ledger.dispute_rows import (
    Dispute,
    DisputeState,
    dispute_by_id,
    disputes_where,
    recomputed_verdict,
    reversed_verdict,
)
from ledger.errors import NotFound
from ledger.schema_closing import dispute
from tests.support.dispute_papers import claim_of
from tests.support.disputes import closed_tab, opened
from tests.support.ledger_world import World


def test_rows_are_found_with_their_vouchers_parties(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        tab = closed_tab(world, store)
        opened(store, claim_of(tab, 1), tab.backbone)
        opened(store, claim_of(tab, 0, by_worker=True), tab.worker)
        with store.reader().session() as connection:
            first, second = disputes_where(connection)
            assert disputes_where(connection, limit=1) == [first]
            of_worker = dispute.c.opener == tab.worker.id
            assert disputes_where(connection, of_worker) == [second]
            assert dispute_by_id(connection, second.id) == second
            with pytest.raises(NotFound, match="no dispute 3"):
                dispute_by_id(connection, 3)
    assert (first.worker, first.backbone) == (tab.worker.id, tab.backbone.id)
    assert (first.opener, first.respondent) == (tab.backbone.id, tab.worker.id)
    assert (second.opener, second.respondent) == (tab.worker.id, tab.backbone.id)
    assert first.is_against_worker
    assert not second.is_against_worker
    assert first.judge_due_us is None
    check_spans(first)


def check_spans(found: Dispute) -> None:
    given = found.answer_due_us - found.opened_us
    later = dataclasses.replace(found, answered_us=found.opened_us + 5)
    assert later.judge_due_us == found.opened_us + 5 + given


def test_states_and_verdicts():
    pending = {state for state in DisputeState if state.is_pending}
    assert pending == {DisputeState.OPEN, DisputeState.ANSWERED}
    assert recomputed_verdict(b"\xab" * 16, "numpy") == (
        f"recomputed {'ab' * 16} by numpy"
    )
    assert recomputed_verdict(None, "numpy") == "recomputed nothing by numpy"
    assert reversed_verdict(7) == "voucher reversed by dispute 7"
