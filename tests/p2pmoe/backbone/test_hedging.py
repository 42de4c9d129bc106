"""A hedge waits for the p95, pays by expectation, and keeps within its share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.hedging import (
    HEDGE_BURST,
    HEDGE_EVERY,
    HEDGE_FLOOR_S,
    HedgeBudget,
    hedge_after,
)


def test_a_worker_that_stalls_at_times_is_hedged_at_its_p95() -> None:
    tail = [1.05, 1.06, 1.07, 1.08, 1.1, 11.0, 11.0]
    assert hedge_after(tail, 0.020, 0.020) == pytest.approx(1.05 * 0.020)


def test_a_steady_worker_is_hedged_only_when_slower_than_ever() -> None:
    tail = [1.05, 1.06, 1.07, 1.08, 1.1, 1.12]
    assert hedge_after(tail, 0.020, 0.020) == pytest.approx(1.1 * 1.12 * 0.020)
    assert hedge_after([1.0], 0.020, 0.020) == pytest.approx(0.022)


def test_a_hedge_that_is_as_slow_as_the_stall_is_not_worth_it() -> None:
    tail = [1.05, 2.0, 3.0]
    assert hedge_after(tail, 0.100, 0.300) == pytest.approx(0.330)


def test_what_is_quick_anyway_is_not_hedged_by_the_clock() -> None:
    assert hedge_after([1.0, 900.0], 0.0001, 0.0001) == HEDGE_FLOOR_S


@given(
    st.lists(st.floats(0.0, 1e4), min_size=1, max_size=8),
    st.floats(0.0, 100.0),
    st.floats(0.0, 100.0),
)
def test_never_before_the_p95(ratios: list[float], expected: float, other: float):
    tail = sorted(ratios)
    after = hedge_after(tail, expected, other)
    assert after >= max(HEDGE_FLOOR_S, tail[0] * expected)
    assert after <= max(HEDGE_FLOOR_S, 1.2 * tail[-1] * expected)


@given(st.lists(st.integers(0, 3), max_size=400))
def test_b32_hedges_never_exceed_their_share(events: list[int]) -> None:
    budget, n_dispatches, n_hedges = HedgeBudget(), 0, 0
    for n in events:
        if n == 0:
            budget.earn()
            n_dispatches += 1
        elif budget.spend(n):
            n_hedges += n
        assert n_hedges * HEDGE_EVERY <= n_dispatches


def test_what_is_saved_is_bounded() -> None:
    budget = HedgeBudget()
    for _ in range(10_000):
        budget.earn()
    assert budget.spend(HEDGE_BURST)
    assert not budget.spend(1)
