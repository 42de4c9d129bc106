"""Signed statements: whose word is taken, and that nothing is read before it is."""

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.errors import ProtocolError
from relay.statements import (
    Statement,
    StatementKind,
    open_statement,
    peer_id_of,
    sign_statement,
)
from tests.support.relays import NETWORK, key

KIND = StatementKind(
    name="a word",
    domain=b"test v1\0",
    format=1,
    n_fields=2,
    max_bytes=400,
    max_array_len=4,
    max_str_len=8,
)
ID = NETWORK.peer_id
SIGNED = sign_statement(KIND, ID, (7, ["x"]), NETWORK.sign)


def signed(body: object) -> bytes:
    raw: bytes = msgpack.packb(body)
    return raw + NETWORK.sign(KIND.domain + raw)


def test_what_is_signed_is_read_back() -> None:
    assert signed([1, ID, 7, ["x"]]) == SIGNED
    said = Statement(ID, [7, ["x"]])
    assert open_statement(KIND, SIGNED) == said == open_statement(KIND, SIGNED, ID)


def test_of_another_network_or_signed_by_another() -> None:
    with pytest.raises(ProtocolError, match="a word of network"):
        open_statement(KIND, SIGNED, key(9).peer_id)
    forged = sign_statement(KIND, ID, (7, []), key(9).sign)
    with pytest.raises(ProtocolError, match="wrong signature"):
        open_statement(KIND, forged, ID)
    another = StatementKind(
        name="another",
        domain=b"other v1\0",
        format=1,
        n_fields=2,
        max_bytes=400,
        max_array_len=4,
        max_str_len=8,
    )
    with pytest.raises(ProtocolError, match="wrong signature"):
        open_statement(another, SIGNED, ID)


@pytest.mark.parametrize(
    "body",
    [
        {},
        7,
        [1],
        [1, ID, 7],
        [1, ID, 7, [], 0],
        [2, ID, 7, []],
        [1, "me", 7, []],
        [1, bytes(32), 7, []],
        [1, ID, 7, [0] * 5],
        [1, ID, 7, ["x" * 9]],
        [1, ID, 7, [bytes(33)]],
        [1, ID, 7, {1: 2}],
    ],
)
def test_what_has_another_form_is_refused_though_signed(body: object) -> None:
    with pytest.raises(ProtocolError, match="a word"):
        open_statement(KIND, signed(body))


def test_one_that_is_too_large_is_neither_made_nor_read() -> None:
    with pytest.raises(ProtocolError, match="bytes"):
        sign_statement(KIND, ID, (7, ["x" * 400]), NETWORK.sign)
    with pytest.raises(ProtocolError, match="401 bytes"):
        open_statement(KIND, bytes(401))


@pytest.mark.parametrize("value", [None, "x", b"", bytes(31), bytes(32)])
def test_what_is_no_id_is_named(value: object) -> None:
    with pytest.raises(ProtocolError, match="a word: "):
        peer_id_of(KIND, value)


@given(st.binary(max_size=300))
def test_noise_raises_only_protocol_errors(raw: bytes) -> None:
    with pytest.raises(ProtocolError):
        open_statement(KIND, raw)


@given(st.integers(0, len(SIGNED) - 1), st.integers(1, 255))
def test_no_byte_can_be_changed(at: int, change: int) -> None:
    raw = bytearray(SIGNED)
    raw[at] ^= change
    with pytest.raises(ProtocolError):
        open_statement(KIND, bytes(raw))
