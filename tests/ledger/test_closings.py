"""The drawer of closings: what a group decided is what it reads."""

import pytest

from ledger.closings import ClosedState, ClosingState, HoldbackState
from ledger.policy import Policy
from tests.support.ledger_world import Party, on_desk

TERMS = Policy(holdback_ppm=10**5)


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path, terms=TERMS) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 1, 2, final=True)
        yield store


def test_a_state_is_read_back_as_it_was_written(world, store):
    state = on_desk(store, lambda desk: desk.closings.find(1))
    assert isinstance(state, ClosingState)
    assert (state.worker, state.backbone) == (world.worker.id, world.backbone.id)
    assert (state.state, state.holdback) == (ClosedState.CLOSED, HoldbackState.HELD)
    assert state.fee_uc + state.held_uc + state.net_uc == state.amount_uc
    assert on_desk(store, lambda desk: desk.closings.find(2)) is None


def test_changes_are_seen_before_and_after_they_are_written(store):
    def change(desk):
        state = desk.closings.find(1)
        state.state = ClosedState.DISPUTED
        desk.closings.change(state)
        before = desk.closings.find(1).state
        desk.write_out()
        return before, desk.closings.find(1).state

    assert on_desk(store, change) == (ClosedState.DISPUTED, ClosedState.DISPUTED)
    assert on_desk(store, lambda d: d.closings.find(1)).state == ClosedState.DISPUTED


def test_what_is_held_of_a_worker(world, store):
    held = on_desk(store, lambda desk: desk.closings.held_of(world.worker.id))
    assert [state.voucher_id for state in held] == [1]
    assert on_desk(store, lambda d: d.closings.held_of(Party("other").id)) == []


def test_what_is_due_comes_oldest_first_and_bounded(world, store):
    world.now_us += 1
    tab = world.tab(store.grant(world.order()).result(60), tab=b"tab-0002")
    tab.file(store, 1, final=True)
    later = world.now_us + TERMS.holdback_us

    def due(desk):
        closings = desk.closings
        return [
            [state.voucher_id for state in found]
            for found in (
                closings.release_due(later, 9),
                closings.release_due(later, 1),
                closings.holdback_due(later, 1),
                closings.release_due(0, 9),
            )
        ]

    assert on_desk(store, due) == [[1, 2], [1], [1], []]
