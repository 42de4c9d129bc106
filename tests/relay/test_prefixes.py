"""A peer's network, as coarse as a market needs it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import ProtocolError
from relay.prefixes import (
    PACKED_PREFIX_BYTES,
    network_prefix,
    pack_prefix,
    unpack_prefix,
)


@pytest.mark.parametrize(
    ("address", "prefix"),
    [
        ("9.9.9.9", "9.9.9.0/24"),
        ("9.9.9.250", "9.9.9.0/24"),
        ("::ffff:9.9.9.9", "9.9.9.0/24"),
        ("2620:fe:7:1::9", "2620:fe:7::/48"),
        ("2620:fe:7:2::9%eth0", "2620:fe:7::/48"),
    ],
)
def test_neighbours_have_one_prefix(address: str, prefix: str) -> None:
    assert network_prefix(address) == prefix


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "::1", "10.1.2.3", "192.168.7.7", "100.64.0.9", "fe80::1", "", "x"],
)
def test_where_a_relay_cannot_tell_peers_apart_there_is_none(address: str) -> None:
    assert network_prefix(address) == ""


@given(st.ip_addresses().map(str))
def test_packed_and_back(address: str) -> None:
    prefix = network_prefix(address)
    packed = pack_prefix(prefix)
    assert len(packed) == PACKED_PREFIX_BYTES
    assert unpack_prefix(packed) == prefix


@given(st.binary(min_size=PACKED_PREFIX_BYTES, max_size=PACKED_PREFIX_BYTES))
def test_b25_any_bytes_raise_only_protocol_error(packed: bytes) -> None:
    try:
        prefix = unpack_prefix(packed)
    except ProtocolError:
        return
    assert unpack_prefix(pack_prefix(prefix)) == prefix
