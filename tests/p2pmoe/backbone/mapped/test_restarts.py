"""A child is started at once, and then at most every 30 s (B15)."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.mapped.restarts import PAUSE_S, RestartTimes


def test_the_first_start_is_allowed_and_the_next_after_a_pause():
    times = RestartTimes()
    asked = [0.0, 0.1, 29.9, 30.0, 31.0, 60.0]
    assert [times.may_start(now) for now in asked] == [
        True,
        *[False] * 2,
        True,
        False,
        True,
    ]
    assert times.n_starts == 3


@given(st.lists(st.floats(0, 10), max_size=300))
def test_however_often_it_is_asked_starts_lie_apart(pauses: list[float]):
    times, now, starts = RestartTimes(), 0.0, []
    for pause in pauses:
        now += pause
        if times.may_start(now):
            starts.append(now)
    assert all(b - a >= PAUSE_S for a, b in pairwise(starts))
    assert times.n_starts == len(starts)
