"""The system's clocks."""

from datetime import UTC, datetime

from mobile_worker.clock import Clock, SystemClock


def test_monotonic_does_not_go_back():
    clock: Clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()


def test_wall_time_is_microseconds_since_1970():
    seconds = datetime.now(UTC).timestamp()
    assert abs(SystemClock().wall_us() / 1e6 - seconds) < 5
