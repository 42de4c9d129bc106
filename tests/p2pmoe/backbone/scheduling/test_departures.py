"""When to try again: by how fast requests end, within bounds."""

from p2pmoe.backbone.scheduling.departures import Departures


def test_it_follows_the_rate_within_bounds() -> None:
    departures = Departures()
    assert departures.retry_s(64) == 32.0
    for second in range(1, 100):
        departures.left(second * 0.5)
    assert abs(departures.retry_s(64) - 16.0) < 1e-9
    assert departures.retry_s(1) == 1.0
    departures.left(1e9)
    assert departures.retry_s(64) == 60.0


def test_a_clock_that_goes_back_is_no_rate() -> None:
    departures = Departures()
    departures.left(5.0)
    departures.left(4.0)
    assert departures.retry_s(64) == 1.0
