"""Gates do not flap: whatever is read, they open at most once in so long."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.governor.gate import Gate


def test_it_closes_after_a_while_and_opens_after_a_longer_one() -> None:
    gate = Gate(close_after_s=10.0, open_after_s=60.0)
    assert not gate.look(0.0, is_bad=True, is_good=False)
    assert not gate.look(9.0, is_bad=True, is_good=False)
    assert gate.look(10.0, is_bad=True, is_good=False)
    assert gate.look(20.0, is_bad=False, is_good=True)
    assert gate.look(79.0, is_bad=False, is_good=True)
    assert not gate.look(80.0, is_bad=False, is_good=True)


def test_between_bad_and_good_nothing_changes() -> None:
    gate = Gate(open_after_s=60.0)
    gate.look(0.0, is_bad=True, is_good=False)
    gate.look(10.0, is_bad=False, is_good=True)
    gate.look(60.0, is_bad=False, is_good=False)
    assert gate.look(1e6, is_bad=False, is_good=False)
    assert gate.look(1e6 + 59, is_bad=False, is_good=True)


def test_an_override_lasts_until_the_cause_has_passed() -> None:
    gate = Gate(open_after_s=60.0)
    gate.look(0.0, is_bad=True, is_good=False)
    gate.override()
    assert not gate.look(1.0, is_bad=True, is_good=False)
    assert not gate.look(5000.0, is_bad=True, is_good=False)
    gate.look(5001.0, is_bad=False, is_good=True)
    assert not gate.look(5061.0, is_bad=False, is_good=True)
    assert gate.look(5062.0, is_bad=True, is_good=False)


def test_what_is_open_cannot_be_overridden_in_advance() -> None:
    gate = Gate()
    gate.override()
    assert gate.look(0.0, is_bad=True, is_good=False)


@given(
    st.lists(
        st.tuples(st.floats(0.0, 100.0), st.booleans(), st.booleans()), max_size=200
    )
)
def test_it_opens_at_most_once_a_minute(looks) -> None:
    gate, now, opened = Gate(open_after_s=60.0), 0.0, []
    for step, is_bad, is_good in looks:
        now += step
        before = gate.is_closed
        gate.look(now, is_bad=is_bad, is_good=is_good)
        if before and not gate.is_closed:
            opened.append(now)
    assert all(b - a >= 60.0 for a, b in pairwise(opened))
