import math

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.market.coverage import (
    DomainCoverage,
    Replica,
    coverage_permille,
    floor_of,
    is_met,
    replica_overhead_bytes,
    replica_target,
)

REPLICAS = st.lists(
    st.builds(
        Replica,
        domain=st.sampled_from(["a", "b", "c", "d"]),
        availability=st.integers(1, 1000),
    ),
    max_size=12,
)


@given(REPLICAS)
def test_coverage_counts_a_domain_at_most_once(replicas: list[Replica]) -> None:
    covered = coverage_permille(replicas)
    assert 0 <= covered <= 1000 * len({r.domain for r in replicas})
    assert covered <= sum(r.availability for r in replicas)


@given(REPLICAS, st.randoms())
def test_kept_coverage_equals_the_formula(replicas: list[Replica], random) -> None:
    kept = DomainCoverage()
    here: list[Replica] = []
    for replica in replicas:
        kept.add(replica.domain, replica.availability)
        here.append(replica)
        if random.random() < 0.3:
            gone = here.pop(random.randrange(len(here)))
            left = kept.without(gone.domain, gone.availability)
            kept.remove(gone.domain, gone.availability)
            assert left == kept.permille
        assert kept.permille == coverage_permille(here)
    assert all((r.domain in kept) for r in here)


def test_b34_fifty_fresh_identities_in_one_domain_cover_as_one() -> None:
    sybils = [Replica(domain="10.0.0", availability=900)] * 50
    assert coverage_permille(sybils) == 1000


@given(st.floats(0, 1e6), st.floats(0.01, 1e3), st.integers(0, 3))
def test_target_is_the_floor_or_enough_for_the_demand(
    demand: float, rate: float, floor: int
) -> None:
    target = replica_target(demand, replica_rate=rate, floor=floor)
    assert target >= floor
    assert target <= 64
    if 0 < demand / rate <= 64:
        assert target == max(floor, math.ceil(demand / rate))


def test_floors_follow_the_backbones_disk() -> None:
    assert floor_of(has_disk=True) == 0
    assert floor_of(has_disk=False) == 2


def test_within_five_per_cent_counts_as_met() -> None:
    assert is_met(950, 1)
    assert not is_met(949, 1)
    assert is_met(0, 0)


def test_overhead_is_what_lies_beyond_one_copy() -> None:
    assert [replica_overhead_bytes(10, n) for n in (0, 1, 3)] == [0, 0, 20]
