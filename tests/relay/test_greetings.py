"""The four frames of the handshake, byte for byte."""

from dataclasses import replace

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import ProtocolError
from relay.frames import pack_limits
from relay.greetings import (
    Auth,
    Challenge,
    Deny,
    DenyCode,
    Welcome,
    encode_auth,
    encode_challenge,
    encode_deny,
    encode_welcome,
    parse_auth,
    parse_challenge,
    parse_deny,
    parse_welcome,
)
from relay.limits import limits_of
from relay.tokens import RateClass
from tests.support.relays import RELAY

CHALLENGE = Challenge(relay_id=RELAY.peer_id, nonce=b"n" * 32, time_ms=258)
AUTH = Auth(
    peer_id=b"p" * 32,
    client_nonce=b"c" * 16,
    role=3,
    caps=1,
    token=b"token",
    signature=b"s" * 64,
)
WELCOME = Welcome(
    relay_id=RELAY.peer_id,
    session=b"e" * 16,
    observed_address="192.0.2.1:5",
    limits=limits_of(RateClass.HUB),
    map_version=0,
    skew_us=-5,
    descriptor=b"d" * 1024,
    signature=b"s" * 64,
    ticket=b"t" * 73,
)


def test_bytes_of_a_challenge() -> None:
    raw = encode_challenge(CHALLENGE)
    head = b"\x20P2PMOER1\x01\x00"
    assert raw == head + RELAY.peer_id + b"n" * 32 + bytes([0, 0, 0, 0, 0, 0, 1, 2])
    assert len(raw) == 83
    assert parse_challenge(raw) == CHALLENGE


def test_bytes_of_an_auth() -> None:
    raw = encode_auth(AUTH)
    head = b"\x21" + b"p" * 32 + b"c" * 16 + b"\x03\x00\x00\x00\x01\x00\x05"
    assert raw == head + b"token" + b"s" * 64
    assert parse_auth(raw) == AUTH


def test_bytes_of_a_welcome() -> None:
    raw = encode_welcome(WELCOME)
    limits = pack_limits(WELCOME.limits)
    body = msgpack.packb(
        [b"e" * 16, "192.0.2.1:5", limits, 0, -5, b"d" * 1024, b"t" * 73]
    )
    assert raw == b"\x22" + body + b"s" * 64
    assert len(raw) < 4096
    assert parse_welcome(raw, RELAY.peer_id) == WELCOME


def test_bytes_of_a_deny() -> None:
    raw = encode_deny(Deny(code=DenyCode.BUSY, retry_ms=258, text="é" * 200))
    assert raw[:6] == b"\x23\x0c\x00\x00\x01\x02"
    assert len(raw) <= 256
    assert parse_deny(raw) == Deny(code=12, retry_ms=258, text="é" * 125)


def test_a_code_of_a_later_version_is_kept() -> None:
    later = Deny(code=200, retry_ms=0, text="new rule")
    assert parse_deny(encode_deny(later)) == later


@pytest.mark.parametrize(
    "raw",
    [
        encode_challenge(CHALLENGE)[:-1],
        encode_challenge(CHALLENGE) + b"\0",
        b"\x20" + b"X" * 82,
        encode_challenge(replace(CHALLENGE, relay_id=b"\x01" + bytes(31))),
    ],
)
def test_b25_bad_challenges(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_challenge(raw)


@pytest.mark.parametrize(
    "raw",
    [
        encode_auth(AUTH)[:-1],
        encode_auth(AUTH) + b"\0",
        encode_auth(replace(AUTH, token=bytes(513))),
        encode_auth(AUTH) + bytes(2048),
    ],
)
def test_b25_bad_auths(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_auth(raw)


@pytest.mark.parametrize(
    "body",
    [
        [],
        [b"e" * 16, "a", pack_limits(WELCOME.limits), 0, 0, b""],
        [b"e" * 15, "a", pack_limits(WELCOME.limits), 0, 0, b"", b""],
        [b"e" * 16, b"a", pack_limits(WELCOME.limits), 0, 0, b"", b""],
        [b"e" * 16, "a", bytes(25), 0, 0, b"", b""],
        [b"e" * 16, "a", pack_limits(WELCOME.limits), 0.5, 0, b"", b""],
        [b"e" * 16, "a", pack_limits(WELCOME.limits), 0, True, b"", b""],
        [b"e" * 16, "a", pack_limits(WELCOME.limits), 0, 0, bytes(1025), b""],
        [b"e" * 16, "a", pack_limits(WELCOME.limits), 0, 0, b"", bytes(129)],
        [b"e" * 16, "a", pack_limits(WELCOME.limits), 0, 0, b"", "ticket"],
        {"session": 1},
    ],
)
def test_b25_bad_welcomes(body: object) -> None:
    with pytest.raises(ProtocolError):
        parse_welcome(b"\x22" + msgpack.packb(body) + bytes(64), RELAY.peer_id)


@given(st.binary(max_size=200))
def test_b25_any_bytes_raise_only_protocol_error(raw: bytes) -> None:
    kinds = (b"\x20", b"\x21", b"\x22", b"\x23")
    parsers = (
        parse_challenge,
        parse_auth,
        lambda message: parse_welcome(message, RELAY.peer_id),
        parse_deny,
    )
    for kind, parse in zip(kinds, parsers, strict=True):
        for message in (raw, kind + raw):
            try:
                parse(message)
            except ProtocolError:
                continue
