import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.market.coverage import Replica, coverage_permille
from p2pmoe.market.pricing.drops import WINDOW_US, Drops
from p2pmoe.market.pricing.holdings import NOTHING, Coverage, DomainHoldings
from tests.support.market_prices import hold, share_of

HOUR_US = 3_600_000_000
SHARES = st.builds(
    share_of,
    st.sampled_from("abc"),
    st.integers(0, 3),
    st.integers(0, 3),
    availability=st.sampled_from([500, 900, 990]),
)


def holdings() -> DomainHoldings:
    return DomainHoldings(Drops())


def counted(found: DomainHoldings, expert: int) -> int:
    return found.look().get(expert, Coverage()).counted


@given(
    st.lists(
        st.tuples(st.sampled_from("xyz"), SHARES | st.just(NOTHING), st.booleans())
    )
)
def test_live_coverage_is_that_of_the_leases(changes) -> None:
    found = holdings()
    leases = {}
    for lease, share, by_market in changes:
        hold(found, lease, share, by_market=by_market)
        leases[lease] = share
    coverage = found.look()
    for expert in range(4):
        replicas = [
            Replica(domain=s.domain, availability=s.availability)
            for s in leases.values()
            if expert in s.experts
        ]
        told = coverage.get(expert, Coverage())
        assert told.live == coverage_permille(replicas)
        assert told.n_domains == len({r.domain for r in replicas})
        assert told.counted >= told.live


@given(st.lists(st.tuples(st.sampled_from("xyz"), SHARES)))
def test_what_only_the_market_takes_is_counted_no_more(changes) -> None:
    found = holdings()
    for lease, share in changes:
        hold(found, lease, share, by_market=True)
    assert all(each.counted == each.live for each in found.look().values())


def test_a_drop_counts_while_the_domain_is_there() -> None:
    found = holdings()
    hold(found, "a", share_of("home", 1, 2))
    hold(found, "b", share_of("away", 1))
    hold(found, "a", share_of("home", 2), HOUR_US)
    assert found.look()[1] == Coverage(counted=1800, live=900, n_domains=1)
    hold(found, "a", NOTHING, HOUR_US)  # the domain is gone altogether
    assert counted(found, 1) == 1800  # but was there since the last look
    assert counted(found, 1) == 900
    hold(found, "c", share_of("home", 3), HOUR_US)  # and there again, with less
    assert counted(found, 1) == 1800
    assert counted(found, 2) == 900


@pytest.mark.parametrize(
    ("held_us", "counts_us"), [(HOUR_US, HOUR_US), (30 * 24 * HOUR_US, WINDOW_US)]
)
def test_a_drop_counts_as_long_as_it_was_held(held_us: int, counts_us: int) -> None:
    found = holdings()
    hold(found, "a", share_of("home", 1, 2))
    hold(found, "a", share_of("home", 2), held_us)
    found.drops.prune(held_us + counts_us - 1)
    assert counted(found, 1) == 900
    found.drops.prune(held_us + counts_us)
    assert counted(found, 1) == 0


def test_shrinking_within_a_domain_counts_as_before() -> None:
    found = holdings()
    hold(found, "a", share_of("home", 1))
    hold(found, "b", share_of("home", 1))
    hold(found, "b", share_of("home", 2), 5)
    assert found.look()[1] == Coverage(counted=1000, live=900, n_domains=1)
    hold(found, "a", share_of("home", 1, availability=500), 6)
    assert found.look()[1] == Coverage(counted=1000, live=500, n_domains=1)


def test_what_the_market_moves_away_wipes_the_slate() -> None:
    found = holdings()
    hold(found, "a", share_of("home", 1))
    hold(found, "b", share_of("home", 1, 2))
    hold(found, "a", NOTHING, 5)
    assert counted(found, 1) == 1000
    hold(found, "b", share_of("home", 2), 6, by_market=True)
    assert counted(found, 1) == 0


def test_a_worker_that_changes_its_domain_leaves_the_one_before() -> None:
    found = holdings()
    hold(found, "a", share_of("declared", 1, 2))
    hold(found, "a", share_of("net 203.0.113.0/24", 1, 2), 5)
    found.look()
    assert counted(found, 1) == 900  # nobody is in the other one any more
    hold(found, "b", share_of("declared", 2), 6)
    assert counted(found, 1) == 1800
    assert found.share_of(b"a").domain == "net 203.0.113.0/24"
    assert found.share_of(b"z") == NOTHING
