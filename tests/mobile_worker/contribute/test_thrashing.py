"""Thrashing is many major faults for long, not a burst; then a pause (B15)."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.contribute.thrashing import FAULTS_S, WINDOW_S, ThrashWatch


def looks(watch: ThrashWatch, rate: float, start: float, seconds: int) -> list[float]:
    """Return when it says so, looking each quarter of a second at a steady rate."""
    times = [start + n / 4 for n in range(4 * seconds)]
    return [now for now in times if watch.look(now, int(now * rate))]


def test_a_quiet_worker_is_left_alone():
    watch = ThrashWatch()
    assert looks(watch, 0, 0.0, 120) == []
    assert watch.faults_s == 0
    assert looks(ThrashWatch(), FAULTS_S * 0.9, 0.0, 120) == []


def test_many_faults_for_long_are_told_at_most_each_half_minute():
    watch = ThrashWatch()
    told = looks(watch, 3 * FAULTS_S, 0.0, 75)
    assert told == [WINDOW_S, WINDOW_S + 30, WINDOW_S + 60]
    assert watch.faults_s > 2 * FAULTS_S


def test_a_burst_is_no_thrashing():
    watch = ThrashWatch()
    count = 0
    for n in range(200):
        count += 300 if n < 3 else 0
        assert not watch.look(n / 4, count)


@given(st.lists(st.tuples(st.floats(0.01, 5), st.integers(0, 5000)), max_size=60))
def test_what_is_told_is_true(steps: list[tuple[float, int]]):
    watch, now, count = ThrashWatch(), 0.0, 0
    told: list[float] = []
    for pause, faults in steps:
        now, count = now + pause, count + faults
        if watch.look(now, count):
            told.append(now)
            assert watch.faults_s >= FAULTS_S
    assert all(b - a >= 29.999 for a, b in pairwise(told))
