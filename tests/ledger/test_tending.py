"""What is due is done, in bounded parts, and not twice."""

from ledger import closing as closing_module
from ledger import grants as grants_module
from ledger.policy import Policy
from ledger.tending import Tended
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
        assert store.tend() == Tended(grants_released=1)
        world.now_us += 48 * HOUR_US
        assert store.tend() == Tended(vouchers_released=1)


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
