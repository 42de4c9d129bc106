"""The relay map: its bytes, and that nothing else is taken for one."""

from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import ProtocolError
from relay.relay_map import (
    MAX_ENTRIES,
    MAX_MAP_BYTES,
    RelayEntry,
    RelayMap,
    newer,
    parse_map,
    sign_map,
)
from tests.support.relays import NETWORK, key

ONE = RelayEntry("wss://one.example/relay", key(1).peer_id, "eu", 100, draining=False)
TWO = RelayEntry("wss://two.example:8443/relay/2", key(2).peer_id, "", 1, draining=True)
MAP = RelayMap(NETWORK.peer_id, 7, (ONE, TWO))
SIGNED = sign_map(MAP, NETWORK.sign)


def signed(body: object) -> bytes:
    raw: bytes = msgpack.packb(body)
    return raw + NETWORK.sign(b"p2pmoe relay map v1\0" + raw)


def body_of(**changes: object) -> list[object]:
    entry: dict[str, object] = {
        "url": ONE.url,
        "relay_id": ONE.relay_id,
        "region": "eu",
        "weight": 100,
        "draining": False,
    }
    entry.update(changes)
    return [1, NETWORK.peer_id, 7, [list(entry.values())]]


def test_bytes_of_a_map() -> None:
    body = (
        b"\x94\x01\xc4\x20" + NETWORK.peer_id + b"\x07\x91\x95"
        + b"\xb7wss://one.example/relay\xc4\x20" + key(1).peer_id + b"\xa2eu\x64\xc2"
    )  # fmt: skip
    made = sign_map(replace(MAP, entries=(ONE,)), NETWORK.sign).encoded
    assert made == body + NETWORK.sign(b"p2pmoe relay map v1\0" + body)


def test_a_signed_map_is_read_back() -> None:
    assert parse_map(SIGNED.encoded) == SIGNED
    assert parse_map(SIGNED.encoded, NETWORK.peer_id).entries == (ONE, TWO)
    assert str(ONE.endpoint) == f"wss://one.example/relay#{key(1).peer_id.hex()}"


@given(
    st.integers(1, 2**32 - 1),
    st.lists(
        st.tuples(
            st.text("abcxyz019-", max_size=32),
            st.integers(1, 1000),
            st.booleans(),
        ),
        max_size=MAX_ENTRIES,
    ),
)
def test_every_map_goes_round(version: int, rows: list[tuple[str, int, bool]]) -> None:
    entries = tuple(
        RelayEntry(
            f"wss://r{at}.example/relay", key(at).peer_id, region, weight, drains
        )
        for at, (region, weight, drains) in enumerate(rows)
    )
    made = sign_map(RelayMap(NETWORK.peer_id, version, entries), NETWORK.sign)
    assert parse_map(made.encoded) == made


@given(st.binary(max_size=300))
def test_noise_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_map(raw)


@given(st.integers(0, len(SIGNED.encoded) - 1), st.integers(1, 255))
def test_no_byte_can_be_changed(at: int, change: int) -> None:
    raw = bytearray(SIGNED.encoded)
    raw[at] ^= change
    with pytest.raises(ProtocolError):
        parse_map(bytes(raw))


@pytest.mark.parametrize(
    "body",
    [
        [],
        {},
        [2, NETWORK.peer_id, 7, []],
        [1, NETWORK.peer_id, 0, []],
        [1, NETWORK.peer_id, 2**32, []],
        [1, NETWORK.peer_id, True, []],
        [1, NETWORK.peer_id, 7, 7],
        [1, bytes(32), 7, []],
        [1, "network", 7, []],
        [1, NETWORK.peer_id, 7, [[ONE.url]]],
        [1, NETWORK.peer_id, 7, [7]],
        body_of(url=7),
        body_of(url="ws://one.example/relay"),
        body_of(url="wss://one.example"),
        body_of(url="wss://ONE.example/relay"),
        body_of(url="wss://one.example/relay#" + "00" * 32),
        body_of(url="wss://user@one.example/relay"),
        body_of(url="wss://one.example/a b\n"),
        body_of(url="wss://one.example/" + "x" * 255),
        body_of(relay_id=b""),
        body_of(relay_id=bytes(32)),
        body_of(region="EU"),
        body_of(region="e" * 33),
        body_of(region=None),
        body_of(weight=0),
        body_of(weight=1001),
        body_of(weight=True),
        body_of(weight=1.5),
        body_of(draining=0),
        [1, NETWORK.peer_id, 7, [body_of()[3][0]] * 2],  # type: ignore[index]
        [
            1,
            NETWORK.peer_id,
            7,
            [[f"wss://{n}.example/relay", ONE.relay_id, "", 1, False] for n in "ab"],
        ],
    ],
)
def test_values_out_of_range_are_refused_though_signed(body: object) -> None:
    with pytest.raises(ProtocolError):
        parse_map(signed(body))


def test_too_many_relays_or_bytes_are_refused() -> None:
    entries = tuple(
        RelayEntry(f"wss://r{n}.example/relay", ONE.relay_id) for n in range(65)
    )
    with pytest.raises(ProtocolError, match="65 relays"):
        sign_map(replace(MAP, entries=entries), NETWORK.sign)
    with pytest.raises(ProtocolError, match="bytes"):
        parse_map(bytes(MAX_MAP_BYTES + 1))


def test_another_networks_map_is_refused() -> None:
    with pytest.raises(ProtocolError, match="network"):
        parse_map(SIGNED.encoded, key(9).peer_id)
    forged = sign_map(MAP, key(9).sign)
    with pytest.raises(ProtocolError, match="signature"):
        parse_map(forged.encoded)


def test_a_map_never_gets_older() -> None:
    old, new = replace(MAP, version=1), replace(MAP, version=2)
    assert newer(None, old) is old
    assert newer(old, new) is new
    assert newer(new, old) is new
    assert newer(new, None) is new
    assert newer(None, None) is None
