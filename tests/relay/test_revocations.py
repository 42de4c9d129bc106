"""Signed revocations: what passes, what does not, and whom they refuse."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import ProtocolError
from relay.keys import SIGNATURE_BYTES
from relay.revocations import (
    Revocations,
    parse_revocations,
    sign_revocations,
    token_hash,
)
from relay.tokens import TokenFault
from tests.support.relays import NETWORK, RELAY, key

TOKEN = token_hash(b"a token")
DOMAIN = b"p2pmoe revocations v1\0"


def revocations(**changes) -> Revocations:
    values = {
        "network": NETWORK.peer_id,
        "version": 3,
        "tokens": frozenset({TOKEN, bytes(31) + b"\1"}),
        "peers": frozenset({key(1).peer_id, key(2).peer_id}),
    }
    return Revocations(**(values | changes))


def signed(body: object, signer=NETWORK) -> bytes:
    raw = msgpack.packb(body)
    return raw + signer.sign(DOMAIN + raw)


def test_what_is_signed_is_read_back() -> None:
    made = sign_revocations(revocations(), NETWORK.sign)
    assert parse_revocations(made.encoded, NETWORK.peer_id) == made
    again = sign_revocations(revocations(), NETWORK.sign)
    assert again.encoded == made.encoded


def test_whom_they_refuse() -> None:
    made = revocations()
    assert made.fault(key(1).peer_id, b"") is TokenFault.PEER_REVOKED
    assert made.fault(key(3).peer_id, TOKEN) is TokenFault.REVOKED
    assert made.fault(key(3).peer_id, token_hash(b"another")) is None
    assert Revocations().fault(key(1).peer_id, TOKEN) is None


ID = bytes(NETWORK.peer_id)
GOOD = [1, ID, 3, [TOKEN], [bytes(key(1).peer_id)]]


def changed(at: int, value: object) -> list[object]:
    return [value if n == at else old for n, old in enumerate(GOOD)]


@pytest.mark.parametrize(
    "body",
    [
        {},
        [],
        [*GOOD, 1],
        changed(0, 2),
        changed(1, "x"),
        changed(1, bytes(32)),
        changed(2, 0),
        changed(2, True),
        changed(2, 2**32),
        changed(2, 1.0),
        changed(3, [TOKEN, TOKEN]),
        changed(3, [TOKEN[:-1]]),
        changed(3, [1]),
        changed(3, TOKEN),
        changed(4, [bytes(32)]),
        changed(4, [bytes(key(1).peer_id), bytes(key(1).peer_id)]),
        changed(4, None),
    ],
)
def test_anything_else_is_refused(body: object) -> None:
    with pytest.raises(ProtocolError):
        parse_revocations(signed(body))


def test_of_another_network_or_signed_by_somebody_else() -> None:
    assert parse_revocations(signed(GOOD)).version == 3
    with pytest.raises(ProtocolError, match="of network"):
        parse_revocations(signed(GOOD), RELAY.peer_id)
    with pytest.raises(ProtocolError, match="wrong signature"):
        parse_revocations(signed(GOOD, RELAY))
    with pytest.raises(ProtocolError):
        sign_revocations(revocations(version=0), NETWORK.sign)
    with pytest.raises(ProtocolError):
        sign_revocations(revocations(network=None), NETWORK.sign)


@given(st.binary(max_size=400))
def test_noise_raises_only_protocol_errors(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_revocations(raw)


@given(st.data())
def test_every_changed_byte_is_noticed(data) -> None:
    raw = bytearray(signed(GOOD))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(ProtocolError):
        parse_revocations(bytes(raw))
    with pytest.raises(ProtocolError):
        parse_revocations(bytes(raw[:SIGNATURE_BYTES]))
