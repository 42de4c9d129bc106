from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.market.pricing import drops as drops_module
from p2pmoe.market.pricing.drops import WINDOW_US, Drop, Drops

FALLS = st.lists(st.tuples(st.integers(0, 3 * WINDOW_US), st.integers(1, 1000)))


@given(FALLS, st.integers(0, WINDOW_US))
def test_the_largest_of_the_window_counts(falls, later_us: int) -> None:
    falls = sorted(falls)[-7:]  # of more, the smallest steps are merged
    drops = Drops()
    for at_us, permille in falls:
        drops.note(Drop(1, "home", at_us, permille))
    now_us = (falls[-1][0] if falls else 0) + later_us
    drops.prune(now_us)
    fresh = [permille for at_us, permille in falls if at_us > now_us - WINDOW_US]
    assert [found[2] for found in drops.largest()] == ([max(fresh)] if fresh else [])


@given(FALLS)
def test_what_is_written_down_says_the_same(falls) -> None:
    drops = Drops(Drop(1, "home", at_us, permille) for at_us, permille in falls)
    assert list(Drops(drops)) == list(drops)


def test_what_the_market_took_is_forgotten() -> None:
    drops = Drops([Drop(1, "home", 5, 900), Drop(2, "home", 5, 900)])
    version = drops.version
    drops.forget(1, "home")
    drops.forget(1, "elsewhere")
    assert list(drops.largest()) == [(2, "home", 900)]
    assert drops.version == version + 1


def test_a_pair_keeps_a_few_steps() -> None:
    falls = [Drop(1, "home", at, 1000 - at) for at in range(20)]
    kept = list(Drops(falls))
    assert len(kept) == 8
    assert kept[0] == falls[0]
    assert kept[-1] == falls[-1]


def test_the_pairs_dropped_first_are_forgotten_first(monkeypatch) -> None:
    monkeypatch.setattr(drops_module, "_MAX_PAIRS", 2)
    drops = Drops(Drop(expert, "home", expert, 900) for expert in range(3))
    drops.note(Drop(1, "home", 9, 800))
    drops.note(Drop(7, "home", 10, 800))
    assert [expert for expert, _, _ in drops.largest()] == [1, 7]
    assert len(drops) == 2
