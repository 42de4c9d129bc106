"""When to try the relay again."""

from relay.backoff import Backoff


def delays(fraction: float, n: int) -> list[float]:
    backoff = Backoff(random=lambda: fraction)
    return [backoff.next_delay_s() for _ in range(n)]


def test_at_once_and_then_doubling_to_the_cap() -> None:
    assert delays(1.0, 9) == [0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]


def test_the_jitter_is_full_and_comes_after_the_cap() -> None:
    assert delays(0.0, 9) == [0.0] * 9
    assert delays(0.5, 9)[-1] == 15.0


def test_what_the_relay_asked_for_is_a_floor() -> None:
    backoff = Backoff(random=lambda: 0.5)
    assert backoff.next_delay_s(asked_s=2.0) == 2.0
    assert backoff.next_delay_s(asked_s=2.0) == 2.25
    assert backoff.next_delay_s(asked_s=-1.0) == 0.5


def test_no_relay_sends_a_peer_away_for_days() -> None:
    backoff = Backoff(random=lambda: 1.0)
    assert backoff.next_delay_s(asked_s=2**32 / 1000) == 300.0
    assert backoff.next_delay_s(asked_s=2**32 / 1000) == 300.5


def test_a_connection_that_lasted_starts_anew() -> None:
    backoff = Backoff(random=lambda: 1.0)
    for _ in range(5000):
        backoff.next_delay_s()
    assert backoff.next_delay_s() == 30.0
    backoff.reset()
    assert backoff.next_delay_s() == 0.0
