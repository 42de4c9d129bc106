"""Rates and gates, with a clock of their own."""

import pytest

from relay.defaults import MAX_TTL_MS
from relay.limits import (
    AddressGate,
    Bucket,
    GateLimits,
    address_key,
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


@pytest.mark.parametrize(
    ("address", "key"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("nonsense", "nonsense"),
    ],
)
def test_what_connections_are_counted_by(address: str, key: str) -> None:
    assert address_key(address) == key


def test_an_address_has_a_burst_and_then_a_rate() -> None:
    gate = AddressGate(GateLimits(per_address_open=1000), 0.0)
    assert sum(gate.enter("192.0.2.1", 0.0) for _ in range(50)) == 20
    assert gate.enter("192.0.2.2", 0.0)
    assert sum(gate.enter("192.0.2.1", 1.0) for _ in range(50)) == 5


def test_an_address_has_so_many_handshakes_at_once() -> None:
    gate = AddressGate(GateLimits(per_address_burst=100), 0.0)
    assert sum(gate.enter("2001:db8::1", 0.0) for _ in range(50)) == 32
    assert not gate.enter("2001:db8::2", 0.0)
    gate.leave("2001:db8::1")
    assert gate.enter("2001:db8::2", 0.0)


def test_all_addresses_together_have_a_rate() -> None:
    gate = AddressGate(GateLimits(), 0.0)
    entered = sum(gate.enter(f"10.0.{n // 256}.{n % 256}", 0.0) for n in range(500))
    assert entered == 200
    assert sum(gate.enter(f"10.1.0.{n % 256}", 1.0) for n in range(200)) == 100


def test_loopback_has_no_rate_of_its_own() -> None:
    gate = AddressGate(GateLimits(), 0.0)
    assert sum(gate.enter("127.0.0.1", 0.0) for _ in range(300)) == 200
    gate.leave("127.0.0.1")


def test_the_memory_of_addresses_is_bounded() -> None:
    gate = AddressGate(GateLimits(all_s=1e9, all_burst=1e9), 0.0)
    for n in range(25_000):
        address = f"10.{n // 65536}.{n // 256 % 256}.{n % 256}"
        assert gate.enter(address, n * 0.001)
        gate.leave(address)
    assert len(gate._buckets) <= 10_000
    assert not gate._open


def test_keep_alive_times_are_spread_and_slower_for_phones() -> None:
    laptop = [keep_alive_of(RateClass.LAPTOP, jitter) for jitter in (0.0, 0.5, 1.0)]
    assert [each.after_s for each in laptop] == [12.0, 15.0, 18.0]
    assert {each.timeout_s for each in laptop} == {5.0}
    phone = keep_alive_of(RateClass.PHONE, 0.5)
    assert (phone.after_s, phone.timeout_s) == (25.0, 20.0)
