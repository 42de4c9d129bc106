"""The grant: canonical bytes and the ledger's signature."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import AmountRefused, FormatRefused, SignatureRefused
from ledger.grant import GRANT_BYTES, Grant, sign_grant, verify_grant
from tests.support.ledger_world import Party

KEY = st.binary(min_size=32, max_size=32)
GRANTS = st.builds(
    Grant,
    network=KEY,
    manifest_hash=KEY,
    worker=KEY,
    backbone=KEY,
    price_table_hash=KEY,
    ceiling_uc=st.integers(0, 2**53 - 1),
    expiry_us=st.integers(0, 2**63 - 1),
    float_leaves=st.integers(0, 2**32 - 1),
    serial=st.binary(min_size=8, max_size=8),
)
GRANT = Grant(
    network=bytes(32),
    manifest_hash=bytes(32),
    worker=bytes(32),
    backbone=bytes(32),
    price_table_hash=bytes(32),
    ceiling_uc=1,
    expiry_us=2,
    float_leaves=3,
    serial=bytes(8),
)


@given(GRANTS)
def test_round_trip(grant):
    raw = grant.pack()
    assert len(raw) == GRANT_BYTES
    assert Grant.parse(raw) == grant
    assert Grant.parse(raw).content_hash == grant.content_hash


@given(st.binary(min_size=GRANT_BYTES, max_size=GRANT_BYTES))
def test_other_bytes_are_refused(raw):
    with pytest.raises(FormatRefused):
        Grant.parse(raw)


def test_bounds():
    for changes in (
        {"worker": b""},
        {"serial": b""},
        {"expiry_us": -1},
        {"float_leaves": 2**32},
    ):
        with pytest.raises(FormatRefused):
            dataclasses.replace(GRANT, **changes)
    with pytest.raises(AmountRefused):
        dataclasses.replace(GRANT, ceiling_uc=2**53)
    with pytest.raises(FormatRefused):
        Grant.parse(GRANT.pack() + b"\0")


def test_only_the_ledgers_signature_counts():
    ledger, other = Party("ledger"), Party("other")
    raw = GRANT.pack()
    signature = sign_grant(raw, ledger.sign)
    assert verify_grant(raw, signature, ledger.id) == GRANT
    for bytes_, key in ((raw, other.id), (raw[:-1] + b"\1", ledger.id)):
        with pytest.raises(SignatureRefused):
            verify_grant(bytes_, signature, key)
