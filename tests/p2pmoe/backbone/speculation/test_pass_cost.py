"""What a pass takes by its rows, from passes that were seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.speculation.pass_cost import PassCost

TIMES = st.floats(0.0, 10.0)
PASSES = st.lists(
    st.tuples(st.integers(1, 400), TIMES, TIMES, st.integers(0, 9)), max_size=30
)


def test_nothing_is_known_at_first() -> None:
    cost = PassCost(7)
    assert (cost.n, cost.seconds(4), cost.compute_s(4)) == (0, 0.0, 0.0)
    assert cost.n_of(1) == 0


def test_what_was_seen_is_told_again() -> None:
    cost = PassCost(7)
    for _ in range(20):
        cost.observe(1, 0.120, 0.100, 5)
        cost.observe(8, 0.180, 0.140, 7)
    assert cost.seconds(1) == pytest.approx(0.120, rel=0.03)
    assert cost.seconds(8) == pytest.approx(0.180, rel=0.03)
    assert cost.error(1) < 0.05 < cost.error(3)
    assert cost.compute_s(1) == pytest.approx(0.020)
    assert cost.trip_s == pytest.approx(0.020)
    assert 0.120 < cost.seconds(4) < 0.180
    assert cost.seconds(12) > cost.seconds(8)


def test_trips_end_at_every_layer() -> None:
    cost = PassCost(7)
    for _ in range(3):
        cost.observe(1, 0.550, 0.550, 5)
    assert 5 * 0.11 < cost.seconds(60) <= 7 * 0.11
    assert cost.seconds(60, hopeful=True) == pytest.approx(0.55)


def test_passes_that_trip_everywhere_say_nothing_of_fewer_rows() -> None:
    cost = PassCost(7)
    for _ in range(3):
        cost.observe(1, 0.95, 0.9, 7)
    for _ in range(10):
        cost.observe(13, 1.1, 0.9, 7)
    assert cost.seconds(1) == pytest.approx(0.95, rel=0.05)


def test_without_waits_rows_are_a_line() -> None:
    cost = PassCost(7)
    for rows in (1, 2, 4):
        cost.observe(rows, 0.001 * rows, 0.0, 0)
    assert cost.seconds(8) == pytest.approx(0.008, rel=0.1)
    assert cost.seconds(8, hopeful=True) <= cost.seconds(8)


def test_longer_waits_of_larger_passes_are_their_own() -> None:
    """A link that is slow takes longer for more rows, at as many trips."""
    cost = PassCost(4)
    for _ in range(30):
        cost.observe(1, 0.09, 0.08, 4)
        cost.observe(16, 0.41, 0.40, 4)
    assert cost.seconds(1) == pytest.approx(0.09, rel=0.1)
    assert cost.seconds(16) == pytest.approx(0.41, rel=0.1)


def test_rare_trips_are_known_from_all_sizes() -> None:
    """A row misses a layer once in a hundred; few passes of one row say little."""
    cost = PassCost(10)
    for n in range(40):
        cost.observe(10, 0.001 + 0.1, 0.1, 1)
        if n < 3:
            cost.observe(1, 0.001, 0.0, 0)
    assert 0.003 < cost.seconds(1) < 0.02


def test_one_stall_moves_little() -> None:
    cost = PassCost(4)
    for _ in range(20):
        cost.observe(1, 0.01, 0.0, 0)
    cost.observe(1, 10.0, 0.0, 0)
    assert cost.seconds(1) < 0.013


def test_sizes_that_are_not_seen_are_forgotten() -> None:
    cost = PassCost(4)
    cost.observe(16, 1.0, 0.0, 0)
    for _ in range(1100):
        cost.observe(1, 0.01, 0.0, 0)
    assert cost.n_of(16) == 0
    assert cost.seconds(16) < 0.2
    assert cost.n_changes == 0


@given(PASSES, st.integers(1, 500))
def test_it_is_a_time_whatever_was_seen(
    passes: list[tuple[int, float, float, int]], rows: int
) -> None:
    cost = PassCost(7)
    for seen in passes:
        cost.observe(*seen)
    for hopeful in (False, True):
        assert 0.0 <= cost.seconds(rows, hopeful=hopeful) < 1e6
    assert 0.0 <= cost.compute_s(rows) < 1e6
