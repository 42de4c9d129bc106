"""The formulas; the properties of whole worlds are in test_model.py."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.prices import ONE_Q16
from p2pmoe.market.coverage import MAX_TARGET
from p2pmoe.market.pricing.scarcity import (
    MAX_MULTIPLIER,
    MIN_MULTIPLIER,
    STEP_PARTS,
    demands,
    ideal_multiplier,
    mean_price,
    moved,
    normalised,
    scarcity,
    steady_target,
    target_of,
)

ROWS = st.dictionaries(st.integers(0, 40), st.integers(0, 1 << 40), max_size=40)
MULTIPLIERS = st.integers(MIN_MULTIPLIER, MAX_MULTIPLIER)


@given(ROWS)
def test_demands_are_multiples_of_the_mean(rows) -> None:
    experts = list(range(41))
    found = demands(rows, experts)
    mean = sum(found.values()) / len(experts)
    assert mean == pytest.approx(ONE_Q16, rel=0.001)
    assert min(found.values()) >= ONE_Q16 * 5 // 100


@pytest.mark.parametrize(
    ("times_the_mean", "replicas"), [(0, 2), (8, 2), (16, 2), (17, 3), (10**6, 64)]
)
def test_targets(times_the_mean: int, replicas: int) -> None:
    assert target_of(times_the_mean * ONE_Q16) == replicas


def test_a_target_stays_while_demand_is_about_that() -> None:
    at_border = 16 * ONE_Q16
    assert steady_target(2, at_border * 114 // 100) == 2
    assert steady_target(3, at_border * 90 // 100) == 3
    assert steady_target(2, at_border * 120 // 100) == 3
    assert steady_target(3, at_border * 80 // 100) == 2
    assert steady_target(64, 0) == 2


@given(st.integers(0, 1 << 40), st.integers(0, 100_000), st.integers(1, 5_000))
def test_less_coverage_is_scarcer(demand: int, permille: int, less: int) -> None:
    target = target_of(demand)
    there = scarcity(target, demand, permille)
    fewer = scarcity(target, demand, max(0, permille - less))
    assert fewer >= there
    assert ideal_multiplier(fewer) >= ideal_multiplier(there)


def test_above_the_largest_target_the_load_counts() -> None:
    hot, hotter = 1_000 * ONE_Q16, 2_000 * ONE_Q16
    assert target_of(hot) == target_of(hotter) == MAX_TARGET
    assert scarcity(64, hotter, 64_000) == 2 * scarcity(64, hot, 64_000)


def test_the_multiplier_is_the_root_of_the_scarcity() -> None:
    assert ideal_multiplier(ONE_Q16) == ONE_Q16
    assert ideal_multiplier(4 * ONE_Q16) == 2 * ONE_Q16
    assert ideal_multiplier(1 << 60) == MAX_MULTIPLIER
    assert ideal_multiplier(0) == MIN_MULTIPLIER


@given(MULTIPLIERS, MULTIPLIERS)
def test_a_multiplier_moves_by_a_twentieth_and_arrives(now: int, ideal: int) -> None:
    following = moved(now, ideal)
    assert abs(following - now) * STEP_PARTS <= now
    assert abs(following - ideal) <= abs(now - ideal)
    for _ in range(60):  # from 1/2 to 4 it takes 43
        now = moved(now, ideal)
    assert now == ideal


@given(
    st.dictionaries(st.integers(0, 40), MULTIPLIERS, min_size=1),
    ROWS,
    st.sets(st.integers(0, 40)),
)
def test_a_mean_row_costs_the_base_price_and_no_more(multipliers, rows, held) -> None:
    """And a mean held expert no more either; one of the two costs just that."""
    held &= multipliers.keys()
    table = normalised(multipliers, rows, held)
    assert table.keys() == multipliers.keys()
    of_rows = mean_price(table, rows)
    of_held = mean_price(table, dict.fromkeys(held, 1)) if held else 0
    assert ONE_Q16 - 2 <= max(of_rows, of_held) <= ONE_Q16


def test_rows_of_a_cheap_expert_do_not_raise_the_others() -> None:
    multipliers = {1: ONE_Q16 // 2, 2: ONE_Q16, 3: ONE_Q16 * 3 // 2}
    alike = normalised(multipliers, dict.fromkeys(multipliers, 1), multipliers)
    washed = normalised(multipliers, {1: 10**9, 2: 1, 3: 1}, multipliers)
    assert washed == alike


def test_of_no_experts_there_are_no_prices() -> None:
    assert normalised({}, {}, ()) == {}
    assert mean_price({}, {1: 2}) == 0
