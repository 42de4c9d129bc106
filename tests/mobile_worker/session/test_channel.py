"""Channels: sealing, opening once, wearing out."""

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mobile_worker.errors import SealError
from mobile_worker.session.channel import MAX_AGE_S, MAX_PACKETS, Channel


def channels():
    one, other = AESGCM(bytes(32)), AESGCM(b"\1" * 32)
    common = {"session_id": bytes(32), "instance": bytes(8), "opened_at": 100.0}
    return (
        Channel(
            local=1, remote=2, initiator=True, sending=one, receiving=other, **common
        ),
        Channel(
            local=2, remote=1, initiator=False, sending=other, receiving=one, **common
        ),
    )


def test_packets_open_once_and_in_any_order():
    a, b = channels()
    packets = [a.seal(bytes([i])) for i in range(5)]
    for i in (3, 0, 4, 1, 2):
        assert b.open(packets[i]) == bytes([i])
        with pytest.raises(SealError, match="repeated"):
            b.open(packets[i])


def test_every_changed_bit_is_noticed_and_moves_nothing():
    a, b = channels()
    packet = a.seal(b"frame")
    for bit in range(8 * len(packet)):
        broken = bytearray(packet)
        broken[bit // 8] ^= 1 << bit % 8
        with pytest.raises(SealError):
            b.open(bytes(broken))
    assert b.open(packet) == b"frame"
    with pytest.raises(SealError):
        a.open(packet)


def test_wearing_out():
    a, b = channels()
    assert not a.is_worn(100.0 + MAX_AGE_S - 1)
    assert a.is_worn(100.0 + MAX_AGE_S)
    assert not b.is_worn(100.0 + MAX_AGE_S)
    assert b.is_worn(101.0 + 1.1 * MAX_AGE_S)
    a.n_sent = MAX_PACKETS
    assert a.is_worn(100.0)
