"""What workers hear of their standing, and when."""

from mobile_worker.messages.codec import encode_message
from mobile_worker.standing import StandingReason, StandingState
from p2pmoe.market.standing import SUSPENSION_S, Standings
from p2pmoe.market.telling import FIGURES_S, Telling
from relay.keys import PeerId

A, B = PeerId(b"a" * 32), PeerId(b"b" * 32)
HERE = {A}


def told(telling: Telling, now: float, **options: float):
    message = telling.tell(A, now, **options).message
    encode_message(message)
    return message


def test_probation_is_told_in_figures() -> None:
    standings = Standings()
    standings.passed(A, 4)
    found = told(Telling(standings), 1.0)
    assert found.state == StandingState.PROBATION
    assert found.detail == "4 of 20 checks passed: its replicas do not count yet"
    assert (found.passes, found.until_s) == (4, 0)


def test_good_standing_is_told_with_its_figures() -> None:
    standings = Standings()
    standings.passed(A, 30)
    standings.silent(A, 2, 1.0)
    standings.doubted(A, 1.0)
    found = told(Telling(standings), 1.0)
    assert found.state == StandingState.GOOD
    assert found.reason == StandingReason.CHECKED
    assert (found.passes, found.mismatches, found.timeouts) == (30, 1, 2)
    assert found.detail == "30 checks passed"


def test_a_suspension_says_why_and_how_long() -> None:
    standings = Standings()
    standings.convict(A, StandingReason.WRONG_CANARY, b"1" * 32, 100.0)
    found = told(Telling(standings), 100.5)
    assert found.state == StandingState.SUSPENDED
    assert found.reason == StandingReason.WRONG_CANARY
    assert found.until_s == SUSPENSION_S
    assert "other domains" in found.detail
    standings.expire(100.0 + SUSPENSION_S)
    again = told(Telling(standings), 101.0 + SUSPENSION_S)
    assert again.reason == StandingReason.BEGUN_AGAIN
    assert again.detail.startswith("0 of 200 checks passed, after a wrong result")


def test_a_refused_key_hears_that_it_does_not_end() -> None:
    standings = Standings()
    for case in (b"1", b"2"):
        standings.convict(A, StandingReason.WRONG_SERVING, case * 32, 100.0)
    found = told(Telling(standings), 100.0)
    assert found.state == StandingState.REFUSED
    assert found.until_s == 0
    assert "2 times" in found.detail


def test_a_closed_domain_is_told_as_such() -> None:
    found = told(Telling(Standings()), 1.0, closed_s=77.2)
    assert found.state == StandingState.SUSPENDED
    assert found.reason == StandingReason.NEIGHBOURS
    assert found.until_s == 78


def test_new_states_go_at_once_and_figures_now_and_then() -> None:
    standings = Standings()
    telling = Telling(standings)
    telling.tell(A, 0.0)
    assert telling.next_due() is None
    standings.passed(A, 3)
    telling.changed([A, B])
    assert [send.peer for send in telling.take(HERE, 1.0)] == []
    assert telling.next_due() == FIGURES_S
    standings.passed(A, 17)  # a new state
    telling.changed([A])
    (send,) = telling.take(HERE, 2.0)
    assert send.message.state == StandingState.GOOD
    standings.passed(A)
    telling.changed([A])
    assert telling.take(HERE, 3.0) == []
    (send,) = telling.take(HERE, 2.0 + FIGURES_S)
    assert send.message.passes == 21
    assert telling.next_due() is None


def test_who_has_left_is_told_nothing() -> None:
    telling = Telling(Standings())
    telling.changed([A])
    telling.forget(A)
    assert telling.take(HERE, 1.0) == []


def test_absurd_figures_fit_the_message() -> None:
    standings = Standings()
    standings.passed(A, 1 << 40)
    standings.silent(A, 1 << 40, 0.0)
    assert told(Telling(standings), 0.0).timeouts == 0xFFFF_FFFF
