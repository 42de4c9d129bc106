"""Peer records: round trip, bounds, signer."""

import dataclasses

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.errors import RecordError
from mobile_worker.session.identity import Identity
from mobile_worker.session.records import parse_record, sign_record
from relay.tokens import Role
from tests.support.sessions import make_record

IDENTITY = Identity.from_seeds(bytes(range(32)), bytes(range(32, 64)))
_addresses = st.lists(st.text("abc.:1", max_size=20), max_size=8).map(tuple)


@given(
    relays=_addresses,
    direct_addresses=_addresses,
    role=st.sampled_from(Role),
    capabilities=st.integers(0, 2**32 - 1),
    sequence=st.integers(0, 2**63),
)
def test_what_is_signed_is_parsed_again(**changes):
    record = make_record(IDENTITY, **changes)
    assert parse_record(record.encoded) == record


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, 2),
        (2, bytes(31)),
        (3, 200),
        (3, "worker"),
        (4, ("a",) * 9),
        (4, (b"a",)),
        (4, "a"),
        (5, (1,)),
        (6, 2**32),
        (6, True),
        (7, b""),
        (8, -1),
        (9, 1.5),
    ],
)
def test_values_out_of_bounds_are_refused(at, value):
    domain = b"p2pmoe peer record v1\0"
    values = list(msgpack.unpackb(make_record(IDENTITY).encoded[:-64]))
    values[at] = value
    packed = msgpack.packb(values)
    with pytest.raises(RecordError):
        parse_record(packed + IDENTITY.sign(domain + packed))
    packed = msgpack.packb(values[:-1])
    with pytest.raises(RecordError):
        parse_record(packed + IDENTITY.sign(domain + packed))


def test_b39_a_record_signed_by_another_is_refused():
    record = dataclasses.replace(
        make_record(IDENTITY), peer_id=Identity.generate().peer_id
    )
    with pytest.raises(RecordError, match="signature"):
        parse_record(sign_record(record, IDENTITY.sign).encoded)


def test_a_long_record_is_refused():
    with pytest.raises(RecordError, match="too long"):
        make_record(IDENTITY, relays=("x" * 1000,))
