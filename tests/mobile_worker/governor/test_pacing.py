"""A rate that is kept over any time, with a burst of a second's."""

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.governor.pacing import Pacer


def test_a_large_answer_goes_out_whole_and_is_waited_for_after() -> None:
    pacer = Pacer(1000.0)
    assert pacer.wait_s(0.0) == 0.0
    pacer.spent(6000, 0.0)
    assert pacer.wait_s(0.0) == 5.0
    assert pacer.wait_s(3.0) == 2.0
    assert pacer.wait_s(60.0) == 0.0


def test_no_rate_paces_nothing() -> None:
    pacer = Pacer()
    pacer.spent(1 << 40, 0.0)
    assert pacer.wait_s(0.0) == 0.0


def test_another_rate_counts_from_now_on() -> None:
    pacer = Pacer(1000.0)
    pacer.spent(3000, 0.0)
    pacer.allow(500.0)
    assert pacer.wait_s(0.0) == 4.0
    pacer.allow(0.0)
    assert pacer.wait_s(0.0) == 0.0
    pacer.allow(100.0)
    pacer.spent(200, 10.0)
    assert pacer.wait_s(10.0) == 1.0


@given(st.lists(st.tuples(st.floats(0.0, 5.0), st.integers(0, 10_000)), max_size=60))
def test_who_waits_sends_no_more_than_the_rate_and_its_bursts(steps) -> None:
    pacer, now, sent, largest = Pacer(1000.0), 0.0, 0, 0
    for pause_s, n_bytes in steps:
        now += pause_s
        now += pacer.wait_s(now)
        pacer.spent(n_bytes, now)
        sent += n_bytes
        largest = max(largest, n_bytes)
        assert sent <= 1000.0 * (now + 1.0) + largest + 1e-3
