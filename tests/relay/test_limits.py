"""Rates and gates, with a clock of their own."""

import pytest

from relay.defaults import MAX_TTL_MS
from relay.limits import (
    Bucket,
    keep_alive_of,
    lane_caps,
    limits_of,
)
from relay.tokens import RateClass

MIB = 1024 * 1024


def test_limits_of_the_three_classes() -> None:
    rates = {each: limits_of(each) for each in RateClass}
    assert [rates[each].bytes_s // MIB for each in RateClass] == [2, 8, 64]
    assert rates[RateClass.HUB].frames_s == 20_000
    assert rates[RateClass.HUB].queue_bytes == 4 * MIB
    assert rates[RateClass.PHONE].queue_bytes == 256 * 1024
    assert {rates[each].max_ttl_ms for each in RateClass} == {MAX_TTL_MS}


def test_queue_caps_scale_with_the_class() -> None:
    phone = lane_caps(limits_of(RateClass.PHONE))
    hub = lane_caps(limits_of(RateClass.HUB))
    assert (phone.control, phone.interactive) == (64 * 1024, 256 * 1024)
    assert (hub.control, hub.interactive) == (256 * 1024, 4 * MIB)


def test_a_bucket_goes_into_debt_and_says_how_long_to_wait() -> None:
    bucket = Bucket(rate=10.0, burst=20.0, now=0.0)
    assert bucket.take(20, 0.0) == 0.0
    assert bucket.take(5, 0.0) == pytest.approx(0.5)
    assert bucket.take(0, 0.5) == pytest.approx(0.0)
    assert bucket.take(20, 100.0) == 0.0
    assert bucket.take(1, 100.0) > 0


def test_a_bucket_that_is_asked_first() -> None:
    bucket = Bucket(rate=1.0, burst=2.0, now=0.0)
    assert bucket.try_take(1, 0.0)
    assert bucket.try_take(1, 0.0)
    assert not bucket.try_take(1, 0.5)
    assert bucket.try_take(1, 1.0)
    assert not bucket.is_full(2.0)
    assert bucket.is_full(4.0)


def test_a_bucket_takes_back_and_changes_its_rate() -> None:
    bucket = Bucket(10, 5, 0.0)
    assert sum(bucket.try_take(1, 0.0) for _ in range(9)) == 5
    bucket.give_back(1)
    assert bucket.try_take(1, 0.0)
    bucket.give_back(100)
    assert sum(bucket.try_take(1, 0.0) for _ in range(9)) == 5
    bucket.change(1, 2, 0.0)
    assert not bucket.try_take(1, 0.5)
    assert sum(bucket.try_take(1, 60.0) for _ in range(9)) == 2


def test_keep_alive_times_are_spread_and_slower_for_phones() -> None:
    laptop = [keep_alive_of(RateClass.LAPTOP, jitter) for jitter in (0.0, 0.5, 1.0)]
    assert [each.after_s for each in laptop] == [12.0, 15.0, 18.0]
    assert {each.timeout_s for each in laptop} == {5.0}
    phone = keep_alive_of(RateClass.PHONE, 0.5)
    assert (phone.after_s, phone.timeout_s) == (25.0, 20.0)
