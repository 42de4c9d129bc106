"""Signed challenges: whose session, for how long, and what opens none."""

import dataclasses

import pytest

from ledger.keys import KEY_BYTES
from mobile_worker.session.identity import Identity
from p2pmoe.ledgerd.login import LOGIN_DOMAIN, Logins, decode, encode, login_body

NETWORK, LEDGER = b"n" * 32, b"l" * 32
MINUTE_US = 60_000_000


class Clock:
    now_us = 10**15

    def wall_us(self) -> int:
        return self.now_us


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def logins(clock: Clock) -> Logins:
    return Logins(
        network=NETWORK,
        ledger=LEDGER,
        secret=b"s" * 32,
        wall_us=clock.wall_us,
        random=lambda n: b"r" * n,
    )


def signature(key: Identity, challenge: str, network: bytes = NETWORK) -> bytes:
    return key.sign(LOGIN_DOMAIN + login_body(network, LEDGER, challenge))


def test_who_signs_a_challenge_has_a_session_for_an_hour(logins, clock):
    key = Identity.generate()
    challenge = logins.challenge()
    session = logins.open(key.peer_id, challenge, signature(key, challenge))
    assert session is not None
    assert logins.peer_of(session) == key.peer_id
    clock.now_us += 60 * MINUTE_US - 1
    assert logins.peer_of(session) == key.peer_id
    clock.now_us += 1
    assert logins.peer_of(session) is None


def test_a_challenge_is_good_for_two_minutes(logins, clock):
    key = Identity.generate()
    challenge = logins.challenge()
    signed = signature(key, challenge)
    clock.now_us += 2 * MINUTE_US
    assert logins.open(key.peer_id, challenge, signed) is None


def test_b39_a_signature_for_another_network_domain_or_peer_opens_nothing(logins):
    key, other = Identity.generate(), Identity.generate()
    challenge = logins.challenge()
    elsewhere = signature(key, challenge, network=b"m" * 32)
    assert logins.open(key.peer_id, challenge, elsewhere) is None
    voucher = key.sign(b"p2pmoe/voucher/v1\0" + login_body(NETWORK, LEDGER, challenge))
    assert logins.open(key.peer_id, challenge, voucher) is None
    assert logins.open(other.peer_id, challenge, signature(key, challenge)) is None


def test_b39_a_weak_key_opens_nothing(logins):
    weak = b"\1" + bytes(31)
    every = b"\1" + bytes(63)
    assert logins.open(weak, logins.challenge(), every) is None


def test_any_flipped_bit_of_challenge_or_session_is_noticed(logins):
    key = Identity.generate()
    challenge = logins.challenge()
    session = logins.open(key.peer_id, challenge, signature(key, challenge))
    assert session is not None
    for bit in range(8 * 40):
        raw = bytearray(decode(challenge, 40) or b"")
        raw[bit // 8] ^= 1 << bit % 8
        forged = encode(bytes(raw))
        assert logins.open(key.peer_id, forged, signature(key, forged)) is None
    for at in range(KEY_BYTES + 40):
        raw = bytearray(decode(session, KEY_BYTES + 40) or b"")
        raw[at] ^= 1
        assert logins.peer_of(encode(bytes(raw))) is None


def test_another_secret_knows_no_earlier_session(logins):
    key = Identity.generate()
    challenge = logins.challenge()
    session = logins.open(key.peer_id, challenge, signature(key, challenge))
    assert dataclasses.replace(logins, secret=b"t" * 32).peer_of(session or "") is None


@pytest.mark.parametrize(
    "text", ["", "A", "=" * 40, "é" * 20, "A" * 10_000, "a b", "-"]
)
def test_what_is_no_text_of_ours(logins, text):
    assert logins.peer_of(text) is None
    assert logins.open(bytes(32), text, bytes(64)) is None


def test_one_text_for_each_value():
    assert decode(encode(b"ab"), 2) == b"ab"
    assert decode("YWK", 2) is None  # its last bits are not zero
    assert decode("YWI=", 2) is None
