"""Signed arrays: what is read is what was signed."""

import msgpack
import pytest

from mobile_worker.errors import RecordError
from mobile_worker.session.signed import (
    MAX_SIGNED_BYTES,
    open_signed,
    peer_id_of,
    seal_signed,
)
from relay.keys import SigningKey

KEY = SigningKey.generate()
DOMAIN = b"test\0"


def sealed(*values):
    return seal_signed(DOMAIN, (1, KEY.peer_id, *values), KEY.sign)


def test_what_is_sealed_opens():
    assert open_signed(DOMAIN, sealed("a", (1, 2)), 1) == (1, KEY.peer_id, "a", (1, 2))


def test_b39_any_changed_bit_is_noticed():
    good = sealed("a")
    for bit in range(8 * len(good)):
        broken = bytearray(good)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(RecordError):
            open_signed(DOMAIN, bytes(broken), 1)


def test_b39_another_domain_or_signer_does_not_open():
    with pytest.raises(RecordError):
        open_signed(b"other\0", sealed(), 1)
    other = SigningKey.generate()
    with pytest.raises(RecordError):
        open_signed(DOMAIN, seal_signed(DOMAIN, (1, KEY.peer_id), other.sign), 1)


def test_b39_weak_keys_sign_nothing():
    identity_point = b"\1" + bytes(31)
    packed = msgpack.packb((1, identity_point))
    with pytest.raises(RecordError):
        open_signed(DOMAIN, packed + identity_point + bytes(32), 1)
    for value in (identity_point, bytes(31), "a", 5, None):
        with pytest.raises(RecordError):
            peer_id_of(value)


@pytest.mark.parametrize(
    "packed",
    [b"", b"\xc0", b"\x91\x01", b"\x80", b"\xdd\xff\xff\xff\xff", b"\x92\x01", b"\xc1"],
)
def test_what_is_no_array(packed):
    with pytest.raises(RecordError):
        open_signed(DOMAIN, packed + bytes(64), 1)


def test_lengths():
    with pytest.raises(RecordError):
        open_signed(DOMAIN, bytes(MAX_SIGNED_BYTES + 1), 1)
    with pytest.raises(RecordError):
        sealed(bytes(MAX_SIGNED_BYTES))
