"""Latches do not flap: whatever is read, they open at most once in so long."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.governor.latch import Latch


def test_it_closes_after_a_while_and_opens_after_a_longer_one() -> None:
    latch = Latch(close_after_s=10.0, open_after_s=60.0)
    assert not latch.look(0.0, is_bad=True, is_good=False)
    assert not latch.look(9.0, is_bad=True, is_good=False)
    assert latch.look(10.0, is_bad=True, is_good=False)
    assert latch.look(20.0, is_bad=False, is_good=True)
    assert latch.look(79.0, is_bad=False, is_good=True)
    assert not latch.look(80.0, is_bad=False, is_good=True)


def test_between_bad_and_good_nothing_changes() -> None:
    latch = Latch(open_after_s=60.0)
    latch.look(0.0, is_bad=True, is_good=False)
    latch.look(10.0, is_bad=False, is_good=True)
    latch.look(60.0, is_bad=False, is_good=False)
    assert latch.look(1e6, is_bad=False, is_good=False)
    assert latch.look(1e6 + 59, is_bad=False, is_good=True)


def test_an_override_lasts_until_the_cause_has_passed() -> None:
    latch = Latch(open_after_s=60.0)
    latch.look(0.0, is_bad=True, is_good=False)
    latch.override()
    assert not latch.look(1.0, is_bad=True, is_good=False)
    assert not latch.look(5000.0, is_bad=True, is_good=False)
    latch.look(5001.0, is_bad=False, is_good=True)
    assert not latch.look(5061.0, is_bad=False, is_good=True)
    assert latch.look(5062.0, is_bad=True, is_good=False)


def test_what_is_open_cannot_be_overridden_in_advance() -> None:
    latch = Latch()
    latch.override()
    assert latch.look(0.0, is_bad=True, is_good=False)


@given(
    st.lists(
        st.tuples(st.floats(0.0, 100.0), st.booleans(), st.booleans()), max_size=200
    )
)
def test_it_opens_at_most_once_a_minute(looks) -> None:
    latch, now, opened = Latch(open_after_s=60.0), 0.0, []
    for step, is_bad, is_good in looks:
        now += step
        before = latch.is_closed
        latch.look(now, is_bad=is_bad, is_good=is_good)
        if before and not latch.is_closed:
            opened.append(now)
    assert all(b - a >= 60.0 for a, b in pairwise(opened))
