"""What is due is done, in bounded parts, and not twice."""

from hypothesis import given
from hypothesis import strategies as st

from ledger import closing as closing_module
from ledger import grants as grants_module
from ledger.claims import FiledStatus
from ledger.policy import Policy
from ledger.tending import Tended, patience_us
from tests.support.ledger_world import HOUR_US, Party

TERMS = Policy(holdback_ppm=10**5, holdback_us=100 * HOUR_US)


def test_a_store_goes_on_until_nothing_is_due(world, tmp_path, monkeypatch):
    monkeypatch.setattr(closing_module, "_MAX_AT_ONCE", 1)
    monkeypatch.setattr(grants_module, "_MAX_EXPIRED", 2)
    with world.open(tmp_path, terms=TERMS) as store:
        for n in range(3):
            worker = Party(f"worker {n}")
            issued = store.grant(world.order(worker=worker)).result(60)
            world.tab(issued, worker=worker).file(store, 1)
        world.now_us += 73 * HOUR_US
        assert store.tend() == Tended(grants_released=3)
        assert store.tend() == Tended()
        world.now_us += 48 * HOUR_US
        assert store.tend() == Tended(vouchers_released=3)
        world.now_us += 100 * HOUR_US
        assert store.tend() == Tended(holdbacks_released=3)
        assert store.tend() == Tended()


def test_a_ledger_that_was_away_for_days_closes_each_key_once(world, tmp_path):
    with world.open(tmp_path, terms=TERMS) as store:
        issued = store.grant(world.order()).result(60)
        world.tab(issued).file(store, 1)
    world.now_us += 73 * HOUR_US
    with world.open(tmp_path) as store:
        world.now_us += HOUR_US
        assert store.tend() == Tended(grants_released=1)
        world.now_us += 48 * HOUR_US
        assert store.tend() == Tended(vouchers_released=1)


def test_who_could_not_file_while_the_ledger_was_away_has_an_hour(world, tmp_path):
    with world.open(tmp_path, terms=TERMS) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 1)
    late, leaves = tab.next(2)
    world.now_us += 96 * HOUR_US
    with world.open(tmp_path) as store:
        assert store.tend() == Tended()
        world.now_us += HOUR_US - 1
        assert store.grant(world.order()).result(60)  # it releases nothing either
        assert store.tend() == Tended()
        filed = store.file(late, leaves, tab.worker.id).result(60)
        assert filed.status is FiledStatus.STORED
        world.now_us += 1
        assert store.tend() == Tended(grants_released=1)


@given(
    latest_us=st.integers(0, 2**62),
    away_us=st.integers(-(2**40), 2**40),
)
def test_patience_is_for_those_who_were_away_for_a_day(latest_us, away_us):
    until_us = patience_us(latest_us, latest_us + away_us)
    is_due = latest_us > 0 and away_us > 24 * HOUR_US
    assert until_us == (latest_us + away_us + HOUR_US if is_due else 0)


def test_parts_add_up():
    first = Tended(grants_released=1, keys_closed=2, is_done=False)
    both = first.plus(Tended(keys_closed=3, vouchers_released=4, holdbacks_released=5))
    assert both == Tended(
        grants_released=1,
        keys_closed=5,
        vouchers_released=4,
        holdbacks_released=5,
        is_done=True,
    )
