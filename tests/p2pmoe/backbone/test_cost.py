"""Estimates follow the measurements; deadlines stay between floor and ceiling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.cost import (
    DEADLINE_CEILING_S,
    DEADLINE_FLOOR_S,
    CallSample,
    LocalCost,
    WorkerCost,
)


def sample(
    elapsed: float, compute: float, rows: int = 1, size: int = 900
) -> CallSample:
    return CallSample(elapsed_s=elapsed, compute_s=compute, n_rows=rows, n_bytes=size)


def test_the_first_sample_replaces_the_hint() -> None:
    cost = WorkerCost(rtt_s=0.5)
    cost.observe(sample(0.011, 0.001))
    assert abs(cost.rtt_s - 0.010) < 1e-9
    assert abs(cost.per_row_s - 0.001) < 1e-9


def test_an_idle_worker_is_thought_better_of_until_it_is_tried_again() -> None:
    cost = WorkerCost()
    cost.observe(sample(1.0, 0.0))
    cost.relax()
    assert cost.rtt_s == 1.0
    for _ in range(100):
        cost.relax()
    assert cost.rtt_s < 0.1
    cost.observe(sample(1.0, 0.0))
    assert cost.rtt_s > 0.4


def test_large_messages_teach_the_bandwidth() -> None:
    cost = WorkerCost()
    for _ in range(50):
        cost.observe(sample(0.010, 0.0))
        cost.observe(sample(1.010, 0.0, rows=100, size=1_000_000))
    assert abs(cost.expected_s(0, 1_000_000) - 1.010) < 0.01
    assert abs(cost.expected_s(0, 0) - 0.010) < 0.001


def test_a_lying_compute_time_cannot_make_the_trip_negative() -> None:
    cost = WorkerCost()
    cost.observe(sample(0.010, 99.0))
    assert cost.rtt_s < 1e-9
    assert abs(cost.per_row_s - 0.010) < 1e-9


def test_an_unknown_worker_gets_the_ceiling() -> None:
    assert WorkerCost().deadline_s(0.1) == DEADLINE_CEILING_S


def test_a_steady_worker_gets_the_floor_and_a_slow_call_more() -> None:
    cost = WorkerCost()
    for _ in range(60):
        cost.observe(sample(0.005, 0.001))
    assert cost.deadline_s(cost.loaded_s(1, 900)) == DEADLINE_FLOOR_S
    assert cost.deadline_s(cost.loaded_s(4000, 900)) > 4.0


@given(st.lists(st.floats(0, 5), min_size=8, max_size=40), st.integers(1, 8))
def test_small_calls_wait_below_two_seconds_of_a_fast_worker(
    late: list[float], rows: int
) -> None:
    cost = WorkerCost()
    for value in late:
        cost.observe(sample(value / 50, 0.0))
    assert (
        DEADLINE_FLOOR_S
        <= cost.deadline_s(cost.loaded_s(rows, 900))
        <= DEADLINE_CEILING_S
    )


def test_the_queue_counts() -> None:
    cost = WorkerCost()
    cost.observe(sample(0.012, 0.002))
    idle = cost.loaded_s(1, 900)
    cost.in_flight_rows = 10
    assert cost.loaded_s(1, 900) > idle


def test_local_cost_adds_reading_and_computing() -> None:
    cost = LocalCost()
    cost.observe_compute(0.002, 2)
    cost.observe_read(0.1, 1_000_000)
    assert abs(cost.disk_s(3, 500_000) - 0.053) < 1e-9
    assert abs(cost.compute_s(3) - 0.003) < 1e-9


def test_a_way_that_is_at_times_much_slower_weighs_more() -> None:
    steady, jittery = WorkerCost(), WorkerCost()
    assert steady.risk == 1.0
    for at in range(128):
        steady.observe(sample(0.010, 0.001))
        jittery.observe(sample(0.070 if at % 10 == 0 else 0.010, 0.001))
    assert steady.risk == pytest.approx(1.0, abs=0.02)
    assert jittery.risk > 1.3
    disk = LocalCost()
    for at in range(128):
        disk.observe_read(0.03 if at % 10 == 0 else 0.003, 1_000_000)
    assert disk.disk_risk > 1.3
    assert disk.disk_s(0, 1_000_000) > 0.0039


def test_reads_at_once_share_the_disk() -> None:
    cost = LocalCost()
    for _ in range(4):
        cost.observe_read(0.4, 1_000_000, 4)
    assert cost.disk_s(0, 1_000_000) == pytest.approx(0.1)
    cost.observe_read(0.4, 0)
    assert cost.disk_s(0, 1_000_000) == pytest.approx(0.1)


def test_one_stall_says_little_of_the_next_call() -> None:
    cost = WorkerCost()
    for _ in range(20):
        cost.observe(sample(0.020, 0.0))
    cost.observe(sample(0.220, 0.0))
    assert 0.020 < cost.rtt_s < 0.0231
    cost.observe(sample(0.220, 0.0))
    assert cost.rtt_s > 0.050  # two in a row are not by chance
    assert cost.tail()[-1] == pytest.approx(11.0)
    for _ in range(40):
        cost.observe(sample(0.220, 0.0))
    assert cost.rtt_s > 0.2  # it is slow by now


def test_too_few_calls_have_no_tail() -> None:
    cost = WorkerCost()
    for _ in range(7):
        cost.observe(sample(0.020, 0.0))
    assert not cost.tail()
    cost.observe(sample(0.020, 0.0))
    assert list(cost.tail()) == pytest.approx([1.0])


def test_what_was_withdrawn_for_slow_was_slow() -> None:
    cost = WorkerCost()
    for _ in range(20):
        cost.observe(sample(0.020, 0.0))
    cost.outlasted(0.010, 1, 900)  # withdrawn before its time: says nothing
    assert cost.tail()[-1] == pytest.approx(1.0)
    cost.outlasted(0.060, 1, 900)
    assert cost.tail()[-1] == pytest.approx(3.0)
    assert cost.rtt_s == pytest.approx(0.020)


def test_idling_fades_for_plans_not_for_deadlines() -> None:
    cost = WorkerCost()
    for _ in range(20):
        cost.observe(sample(0.020, 0.0))
    before = cost.loaded_s(1, 900)
    for _ in range(50):
        cost.relax()
    assert cost.rtt_s < 0.005
    assert cost.expected_s(1, 900) < 0.005
    assert cost.loaded_s(1, 900) == before
    cost.observe(sample(0.020, 0.0))
    assert cost.rtt_s == pytest.approx(0.020)
    assert cost.tail()[-1] == pytest.approx(1.0)
