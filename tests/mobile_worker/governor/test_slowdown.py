"""Heat by slower work: set beside first calls of about the same size."""

from mobile_worker.governor.slowdown import SlowdownWatch


def feed(watch: SlowdownWatch, now: float, n: int, mac_us: float, macs=1 << 20) -> None:
    for _ in range(n):
        watch.computed(now, macs, round(macs * mac_us))


def test_twice_the_time_is_a_factor_of_two() -> None:
    watch = SlowdownWatch()
    feed(watch, 0.0, 32, 0.001)
    assert watch.factor(0.0) is None
    feed(watch, 1.0, 23, 0.002)
    assert watch.factor(1.0) is None
    feed(watch, 1.0, 1, 0.002)
    assert abs(watch.factor(1.0) - 2.0) < 0.01


def test_small_calls_are_not_slow_large_ones() -> None:
    watch = SlowdownWatch()
    feed(watch, 0.0, 32, 0.001)
    feed(watch, 0.0, 32, 0.01, macs=1 << 12)
    feed(watch, 1.0, 40, 0.01, macs=1 << 12)
    assert abs(watch.factor(1.0) - 1.0) < 0.05


def test_what_is_old_or_was_before_a_rest_says_nothing() -> None:
    watch = SlowdownWatch()
    feed(watch, 0.0, 32, 0.001)
    feed(watch, 1.0, 40, 0.002)
    assert watch.factor(62.0) is None
    feed(watch, 63.0, 40, 0.002)
    watch.forget()
    assert watch.factor(63.0) is None
    feed(watch, 64.0, 40, 0.001)
    assert abs(watch.factor(64.0) - 1.0) < 0.01


def test_calls_of_nothing_are_left_out() -> None:
    watch = SlowdownWatch()
    watch.computed(0.0, 0, 5)
    watch.computed(0.0, 5, 0)
    assert watch.factor(0.0) is None
