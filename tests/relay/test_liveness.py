"""Whether a relay still lives (faults B28), by values."""

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from relay.liveness import LifeSign, Liveness

ALIVE, PING_DUE, SILENT = LifeSign.ALIVE, LifeSign.PING_DUE, LifeSign.SILENT


def watch() -> Liveness:
    return Liveness(after_s=15, timeout_s=5, every_s=2, now=0)


def looks(times: Iterable[float], last_read: float = 0.0) -> list[LifeSign]:
    liveness = watch()
    return [liveness.look(now, last_read) for now in times]


def test_b28_a_silent_relay_is_dead_after_twenty_two_seconds() -> None:
    found = looks(range(2, 24, 2))
    assert found == [ALIVE] * 7 + [PING_DUE, ALIVE, ALIVE, SILENT]


def test_any_byte_counts_as_life() -> None:
    liveness = watch()
    found = [liveness.look(now, now - 14.9) for now in range(20, 200, 2)]
    assert SILENT not in found[1:]
    assert PING_DUE not in found[1:]


def test_a_ping_that_is_answered_and_the_next_silence() -> None:
    liveness = watch()
    for now in range(2, 16, 2):
        assert liveness.look(now, 0) is ALIVE
    assert liveness.look(16, 0) is PING_DUE
    assert liveness.look(18, 16.1) is ALIVE
    assert liveness.look(30, 16.1) is ALIVE
    assert liveness.look(32, 16.1) is PING_DUE


def test_b28_a_process_that_stood_still_blames_nobody() -> None:
    """Stopped for 120 s with a ping out: the answer lies unread in the kernel."""
    liveness = watch()
    for now in range(2, 18, 2):
        liveness.look(now, 0)
    assert liveness.look(138, 0) is ALIVE
    assert liveness.look(140, 137) is ALIVE
    silent = watch()
    for now in range(2, 18, 2):
        silent.look(now, 0)
    found = [silent.look(now, 0) for now in (138, 140, 142, 144)]
    assert found == [ALIVE, ALIVE, ALIVE, SILENT]


@given(st.lists(st.floats(0.1, 3.9), min_size=30, max_size=60))
def test_a_relay_that_is_silent_is_found_out(steps: list[float]) -> None:
    liveness, now, found = watch(), 0.0, []
    for step in steps:
        now += step
        found.append(liveness.look(now, 0.0))
        if found[-1] is SILENT:
            break
    assert found.count(PING_DUE) == (now >= 15)
    if found[-1] is SILENT:
        assert 20 <= now <= 15 + 5 + 2 * 3.9
    else:
        assert now < 15 + 5 + 2 * 3.9
