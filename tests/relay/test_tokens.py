"""Network tokens: what they say and whom they admit."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import ProtocolError
from relay.tokens import (
    NetworkToken,
    RateClass,
    Role,
    TokenFault,
    Visit,
    check_token,
    encode_token,
    parse_token,
)
from tests.support.relays import NETWORK, RELAY, key, token_for

PEER = key(1)
NOW_US = 1_800_000_000_000_000
VISIT = Visit(
    peer_id=PEER.peer_id, relay_id=RELAY.peer_id, role=Role.WORKER, now_us=NOW_US
)


def verdict(raw: bytes, visit: Visit = VISIT) -> object:
    return check_token(raw, NETWORK.peer_id, visit)


def test_bytes_of_a_token() -> None:
    raw = token_for(PEER, not_after_us=5, role=Role.WORKER, rate_class=RateClass.PHONE)
    body, signature = raw[:-64], raw[-64:]
    assert body == (
        b"\x97\x01"
        + b"\xc4\x20" + NETWORK.peer_id
        + b"\xc4\x20" + PEER.peer_id
        + b"\xc4\x00\x05\x01\x00"
    )  # fmt: skip
    assert signature == NETWORK.sign(b"p2pmoe network token v1\0" + body)


def test_a_serial_tells_tokens_of_equal_terms_apart() -> None:
    raw = token_for(PEER, serial=2**64 - 1)
    assert raw[:2] == b"\x98\x02"
    assert raw[:-64].endswith(b"\xcf" + b"\xff" * 8)
    token = verdict(raw)
    assert isinstance(token, NetworkToken)
    assert token.serial == 2**64 - 1
    assert raw != token_for(PEER, serial=1) != token_for(PEER)


@pytest.mark.parametrize(
    "ending",
    [b"\x01\x00", b"\x02", b"\x02\x00", b"\x02\xc4\x00", b"\x02\xc3", b"\x03\x01"],
)
def test_a_serial_stands_in_version_2_alone(ending: bytes) -> None:
    head = b"\x98" if len(ending) > 1 else b"\x97"
    fields = token_for(PEER)[2:-64]
    body = head + ending[:1] + fields + ending[1:]
    with pytest.raises(ProtocolError):
        parse_token(body + NETWORK.sign(b"p2pmoe network token v1\0" + body))


def test_a_good_token_admits() -> None:
    token = verdict(token_for(PEER, role=Role.WORKER, relay_id=RELAY.peer_id))
    assert isinstance(token, NetworkToken)
    assert token.rate_class is RateClass.HUB


def test_a_token_for_anyone_admits() -> None:
    assert isinstance(verdict(token_for(PEER, peer_id=None)), NetworkToken)


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        (b"", TokenFault.MISSING),
        (b"x", TokenFault.MALFORMED),
        (bytes(600), TokenFault.MALFORMED),
        (token_for(PEER)[:-1], TokenFault.MALFORMED),
        (token_for(PEER, network=key(9).peer_id), TokenFault.FOREIGN),
        (token_for(PEER)[:-64] + bytes(64), TokenFault.FORGED),
        (
            encode_token(NetworkToken(network=NETWORK.peer_id), key(9).sign),
            TokenFault.FORGED,
        ),
        (token_for(key(2)), TokenFault.NOT_YOURS),
        (token_for(PEER, relay_id=key(3).peer_id), TokenFault.OTHER_RELAY),
        (token_for(PEER, role=Role.MARKET), TokenFault.OTHER_ROLE),
        (token_for(PEER, not_after_us=NOW_US - 1), TokenFault.EXPIRED),
    ],
)
def test_each_fault_has_its_name(raw: bytes, fault: TokenFault) -> None:
    assert verdict(raw) is fault


def test_b39_the_signature_is_checked_before_any_other_claim() -> None:
    expired = token_for(PEER, not_after_us=1)
    assert verdict(expired[:-64] + bytes(64)) is TokenFault.FORGED


def test_b39_every_changed_bit_is_refused() -> None:
    raw = token_for(PEER, not_after_us=NOW_US + 1)
    for at in range(len(raw)):
        for bit in range(8):
            changed = bytearray(raw)
            changed[at] ^= 1 << bit
            assert isinstance(verdict(bytes(changed)), TokenFault)


@given(st.binary(max_size=300))
def test_b25_any_bytes_raise_only_protocol_error(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_token(raw)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.floats()
        | st.text()
        | st.binary()
        | st.integers(-(2**63), 2**64 - 1),
        lambda inner: (
            st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=2)
        ),
        max_leaves=12,
    )
)
def test_b25_any_msgpack_raises_only_protocol_error(value: object) -> None:
    with pytest.raises(ProtocolError):
        parse_token(msgpack.packb(value) + bytes(64))


@pytest.mark.parametrize(
    ("index", "value"),
    [
        (0, 2),
        (1, b""),
        (1, b"\x01" + bytes(31)),
        (2, b"short"),
        (2, "text"),
        (4, -1),
        (4, True),
        (4, 1.5),
        (5, 99),
        (5, 300),
        (6, 3),
    ],
)
def test_b25_fields_out_of_range_are_malformed(index: int, value: object) -> None:
    fields = [1, NETWORK.peer_id, PEER.peer_id, b"", 0, 1, 1]
    parse_token(msgpack.packb(fields) + bytes(64))
    fields[index] = value
    with pytest.raises(ProtocolError):
        parse_token(msgpack.packb(fields) + bytes(64))
