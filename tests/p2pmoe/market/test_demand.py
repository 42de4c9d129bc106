import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.expert_id import ExpertId
from p2pmoe.market.demand import (
    HALF_LIFE_S,
    DemandAverage,
    Shard,
    TokenRate,
    wanted_of,
)
from p2pmoe.market.devices import ExpertKey

EXPERTS = [ExpertId(0, i) for i in range(4)]
SHARDS = [
    Shard(key=ExpertKey(i), expert=e, n_bytes=10, digest=bytes(32))
    for i, e in enumerate(EXPERTS)
]


def test_unknown_demand_is_even() -> None:
    assert set(DemandAverage().relative(EXPERTS).values()) == {1.0}


def test_old_reports_fade() -> None:
    average = DemandAverage()
    average.report([(EXPERTS[0], 100)], 10.0)
    average.report([(EXPERTS[1], 100)], 10.0 + HALF_LIFE_S)
    relative = average.relative(EXPERTS)
    older, newer, unused = (relative[e] for e in EXPERTS[:3])
    assert newer - unused == pytest.approx(2 * (older - unused))
    assert unused == pytest.approx(0.05)


@given(st.lists(st.integers(0, 1000), min_size=4, max_size=4))
def test_demand_is_in_multiples_of_the_mean(counts: list[int]) -> None:
    average = DemandAverage()
    average.report(zip(EXPERTS, counts, strict=True), 0.0)
    relative = average.relative(EXPERTS)
    assert sum(relative.values()) == pytest.approx(4.0)


def test_the_tail_is_the_colder_half_of_what_is_away() -> None:
    demand = dict(zip(EXPERTS, [2.5, 1.0, 0.4, 0.1], strict=True))
    wanted = wanted_of(SHARDS, demand, {EXPERTS[0]}, has_disk=True)
    assert [w.in_tail for w in wanted] == [False, False, True, True]
    assert [w.at_hand for w in wanted] == [True, False, False, False]
    assert {w.floor for w in wanted} == {0}
    assert [w.target for w in wanted] == [1, 1, 1, 1]


def test_without_a_disk_the_floor_is_two() -> None:
    demand = dict.fromkeys(EXPERTS, 1.0)
    wanted = wanted_of(SHARDS, demand, set(), has_disk=False)
    assert {(w.floor, w.target) for w in wanted} == {(2, 2)}


def test_hot_experts_get_more_replicas() -> None:
    demand = dict(zip(EXPERTS, [17.0, 1.0, 1.0, 0.0], strict=True))
    wanted = wanted_of(SHARDS, demand, set(), has_disk=True)
    assert [w.target for w in wanted] == [3, 1, 1, 0]


def test_tokens_a_second_follow_the_reports() -> None:
    rate = TokenRate()
    assert rate.per_s(0.0) == 0.0
    rate.report(1000, 0.0)  # since when, nobody knows
    assert rate.per_s(0.0) == 0.0
    for at in (3.0, 6.0, 9.0):
        rate.report(30, at)
    assert rate.per_s(9.0) == 10.0
    assert rate.per_s(15.0) == 10.0
    assert rate.per_s(30.0) == 0.0
    rate.report(0, 33.0)
    assert rate.per_s(33.0) == 0.0


@given(st.lists(st.tuples(st.floats(0, 20), st.integers(0, 2**32 - 1)), max_size=100))
def test_no_report_makes_an_absurd_rate(reports: list[tuple[float, int]]) -> None:
    rate, now = TokenRate(), 0.0
    for wait_s, n_tokens in reports:
        now += wait_s
        rate.report(n_tokens, now)
        assert 0.0 <= rate.per_s(now) <= 1e6
