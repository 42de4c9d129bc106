"""Who is believed about an address, and what a spoofed header gets."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.fronts import forwarded_address, origin_of
from relay.gate import Origin

TRUSTED = (
    ipaddress.ip_network("10.0.0.0/8"),
    ipaddress.ip_network("2001:db8:f::/48"),
)


@pytest.mark.parametrize(
    ("remote", "behind_front", "origin"),
    [
        ("127.0.0.1", True, Origin.FRONT),
        ("::1", True, Origin.FRONT),
        ("127.0.0.1", False, Origin.LOCAL),
        ("10.1.2.3", False, Origin.FRONT),
        ("::ffff:10.1.2.3", False, Origin.FRONT),
        ("2001:db8:f::1", False, Origin.FRONT),
        ("192.0.2.1", True, Origin.PEER),
        ("2001:db8::1", True, Origin.PEER),
        ("fe80::1%eth0", True, Origin.PEER),
        ("nonsense", True, Origin.PEER),
    ],
)
def test_whose_a_connection_is(remote: str, behind_front: bool, origin: Origin) -> None:
    assert origin_of(remote, TRUSTED, behind_front=behind_front) is origin


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        (["192.0.2.9"], "192.0.2.9"),
        (["1.1.1.1, 192.0.2.9"], "192.0.2.9"),  # the first is the peer's own lie
        (["1.1.1.1", "192.0.2.9"], "192.0.2.9"),
        (["192.0.2.9, 10.0.0.7"], "192.0.2.9"),  # two fronts in a row
        (["192.0.2.9, 127.0.0.1"], "192.0.2.9"),
        (["192.0.2.9:1234"], "192.0.2.9"),
        (["[2001:db8::1]:443"], "2001:db8::1"),
        (["2001:db8::1"], "2001:db8::1"),
        (["::ffff:192.0.2.9"], "192.0.2.9"),
        (["1.1.1.1, unknown"], None),
        (["10.0.0.7"], None),
        ([""], None),
        ([], None),
        (["192.0.2.9" + ", 10.0.0.7" * 40], None),
    ],
)
def test_what_a_front_says(headers: list[str], address: str | None) -> None:
    assert forwarded_address(headers, TRUSTED) == address


@given(st.lists(st.text(max_size=100), max_size=30))
def test_noise_is_an_address_or_nothing(headers: list[str]) -> None:
    found = forwarded_address(headers, TRUSTED)
    assert found is None or ipaddress.ip_address(found)
