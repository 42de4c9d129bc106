"""A holdback is given back when its time is over, or forfeited; never both."""

import pytest
from sqlalchemy import select

from ledger.accounts import AccountKind
from ledger.closing import dispute
from ledger.closings import ClosingState, HoldbackState
from ledger.errors import NotFound, TransferConflict
from ledger.holdback import forfeit
from ledger.policy import Policy
from ledger.schema_closing import closing
from tests.support.ledger_world import HOUR_US, held, on_desk

TERMS = Policy(holdback_ppm=250_000, holdback_us=72 * HOUR_US)


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path, terms=TERMS) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, *range(9), final=True)
        yield store


def row(store):
    with store.reader().session() as connection:
        return connection.execute(select(closing)).one()


def the_closing(desk) -> ClosingState:
    found = desk.closings.find(1)
    assert found is not None
    return found


def test_it_is_given_back_when_its_time_is_over(world, store):
    held_uc = row(store).held_uc
    assert held(store, AccountKind.WORKER_HELD) == held_uc > 0
    world.now_us += TERMS.holdback_us - 1
    assert store.tend().holdbacks_released == 0
    world.now_us += 1
    assert store.tend().holdbacks_released == 1
    assert (row(store).holdback, row(store).holdback_us) == ("released", world.now_us)
    assert held(store, AccountKind.WORKER_HELD) == 0
    assert held(store, AccountKind.WORKER_AVAILABLE) == row(store).amount_uc
    with pytest.raises(NotFound, match="is released"):
        on_desk(store, lambda desk: forfeit(desk, the_closing(desk)))


def test_a_forfeited_one_is_the_operators(world, store):
    def forfeit_all(desk):
        found = desk.closings.held_of(world.worker.id)
        for state in found:
            forfeit(desk, state)
        return len(found), len(desk.closings.held_of(world.worker.id))

    assert on_desk(store, forfeit_all) == (1, 0)
    assert (row(store).holdback, row(store).holdback_us) == ("forfeited", world.now_us)
    assert held(store, AccountKind.PENALTY) == row(store).held_uc
    world.now_us += TERMS.holdback_us
    assert store.tend().holdbacks_released == 0
    assert held(store, AccountKind.WORKER_AVAILABLE) == row(store).net_uc


def test_a_dispute_holds_it_back_longer(world, store):
    on_desk(store, lambda desk: dispute(desk, the_closing(desk)))
    world.now_us += TERMS.holdback_us
    assert store.tend().holdbacks_released == 0
    on_desk(store, lambda desk: forfeit(desk, the_closing(desk)))
    assert held(store, AccountKind.PENALTY) == row(store).held_uc


def test_the_second_of_both_outcomes_has_the_id_of_the_first(world, store):
    world.now_us += TERMS.holdback_us
    store.tend()

    def forfeit_what_is_released(desk):
        state = the_closing(desk)
        state.holdback = HoldbackState.HELD
        forfeit(desk, state)

    with pytest.raises(TransferConflict, match="another body"):
        on_desk(store, forfeit_what_is_released)
