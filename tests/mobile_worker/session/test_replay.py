"""The replay window, against a plain set of what was seen."""

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.session.replay import WINDOW, ReplayWindow


@given(st.lists(st.integers(0, 6000), max_size=200))
def test_it_accepts_what_is_new_and_not_too_old(counters):
    window, seen, greatest = ReplayWindow(), set(), -1
    for counter in counters:
        new = counter not in seen and counter > greatest - WINDOW
        assert window.check(counter) == new
        if new:
            window.commit(counter)
            seen.add(counter)
            greatest = max(greatest, counter)
            assert not window.check(counter)


def test_its_edges():
    window = ReplayWindow()
    window.commit(0)
    window.commit(WINDOW - 1)
    assert window.check(1)
    assert not window.check(0)
    window.commit(WINDOW)
    assert window.check(1)
    assert not window.check(0)
    window.commit(WINDOW + 1)
    assert not window.check(1)
    assert window.check(2)
    window.commit(2**64 - 1)
    assert not window.check(WINDOW + 2)
    assert window.check(2**64 - WINDOW)


def test_checking_changes_nothing():
    window = ReplayWindow()
    assert window.check(10**9)
    assert window.check(5)
    window.commit(5)
    assert window.check(4)
