from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.market.pricing import drops as drops_module
from p2pmoe.market.pricing.drops import Drop, Drops

FALLS = st.lists(st.tuples(st.integers(1, 100), st.integers(1, 1000)), max_size=8)


@given(FALLS, st.integers(0, 110))
def test_the_largest_that_still_counts_is_what_counts(falls, now_us: int) -> None:
    drops = Drops(Drop(1, "home", until_us, permille) for until_us, permille in falls)
    drops.prune(now_us)
    fresh = [permille for until_us, permille in falls if until_us > now_us]
    assert [found[2] for found in drops.largest()] == ([max(fresh)] if fresh else [])


@given(FALLS)
def test_what_is_written_down_says_the_same(falls) -> None:
    drops = Drops(Drop(1, "home", until_us, permille) for until_us, permille in falls)
    assert list(Drops(drops)) == list(drops)


def test_what_the_market_took_is_forgotten() -> None:
    drops = Drops([Drop(1, "home", 5, 900), Drop(2, "home", 5, 900)])
    version = drops.version
    drops.forget(1, "home")
    drops.forget(1, "elsewhere")
    assert list(drops.largest()) == [(2, "home", 900)]
    assert drops.version == version + 1


def test_a_pair_keeps_a_few_steps() -> None:
    falls = [Drop(1, "home", until_us, 1000 - until_us) for until_us in range(20)]
    assert list(Drops(falls)) == falls[:8]


def test_the_pairs_dropped_first_are_forgotten_first(monkeypatch) -> None:
    monkeypatch.setattr(drops_module, "_MAX_PAIRS", 2)
    drops = Drops(Drop(expert, "home", 5, 900) for expert in range(3))
    drops.note(Drop(1, "home", 9, 800))
    drops.note(Drop(7, "home", 10, 800))
    assert [expert for expert, _, _ in drops.largest()] == [1, 7]
    assert len(drops) == 2
