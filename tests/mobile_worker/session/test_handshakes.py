"""Handshakes of a peer: repeats, who goes on, how often a stranger is answered."""

import os

import pytest

from mobile_worker.errors import HandshakeError
from mobile_worker.session.handshake import OwnSide
from mobile_worker.session.handshakes import Handshakes
from mobile_worker.session.identity import Identity
from mobile_worker.session.packets import PacketKind, parse_handshake
from tests.support.sessions import NETWORK, make_record


def sides(*, knows=True):
    """Two, the one with the smaller id first."""
    one, other = sorted(
        (Identity.generate() for _ in range(2)), key=lambda i: i.peer_id
    )

    def make(own, peer):
        record = make_record(own)
        side = OwnSide(
            identity=own,
            network=NETWORK,
            instance=os.urandom(8),
            record=lambda: record.encoded,
            random_bytes=os.urandom,
        )
        return Handshakes(
            side, peer.peer_id, lambda: make_record(peer) if knows else None
        )

    return make(one, other), make(other, one)


def kind_of(packet):
    return parse_handshake(packet).kind


def test_the_first_packet_is_repeated_then_given_up():
    a, _ = sides()
    first = a.begin(0.0)
    assert not a.may_begin(0.0)
    sent, now, gave_up = [(0.0, first)], 0.0, False
    while not gave_up:
        now += 0.1
        packet, gave_up = a.repeat(now)
        if packet is not None:
            sent.append((now, packet))
    kinds = [kind_of(packet) for _, packet in sent]
    assert kinds == [PacketKind.IK_1] * 3 + [PacketKind.XX_1] * 3
    assert sent[1][1] == first
    assert 10 < now < 25
    assert a.may_begin(now)


def test_the_smaller_id_goes_on_when_both_begin():
    a, b = sides()
    from_a, from_b = a.begin(0.0), b.begin(0.0)
    assert a.take(parse_handshake(from_b), 0.0) == (None, None)
    answer, _ = b.take(parse_handshake(from_a), 0.0)
    _, result = a.take(parse_handshake(answer), 0.0)
    assert result is not None
    assert b.repeat(0.9) == (None, False)
    channel = b.unconfirmed(result.channel.remote)
    assert b.confirm(channel) is not None
    assert not b.offering
    assert b.confirm(channel) is None


def test_keys_are_set_aside_until_confirmed_and_only_two():
    a, b = sides()
    channels = []
    for _ in range(3):
        answer, result = b.take(parse_handshake(a.begin(0.0)), 0.0)
        assert result is None
        _, result = a.take(parse_handshake(answer), 0.0)
        channels.append(result.channel)
    assert b.unconfirmed(channels[0].remote) is None
    assert b.unconfirmed(channels[1].remote) is not None
    assert b.unconfirmed(channels[2].remote) is not None


def test_xx_is_finished_by_its_third_packet():
    a, b = sides(knows=False)
    answer, _ = b.take(parse_handshake(a.begin(0.0)), 0.0)
    third, result = a.take(parse_handshake(answer), 0.0)
    assert b.unconfirmed(result.channel.remote) is None
    assert b.take(parse_handshake(third), 0.0) == (None, None)
    assert b.unconfirmed(result.channel.remote) is not None
    with pytest.raises(HandshakeError, match="no such"):
        b.take(parse_handshake(third), 0.0)


def test_a_forged_answer_breaks_only_that_attempt():
    a, b = sides()
    first = a.begin(0.0)
    answer, _ = b.take(parse_handshake(first), 0.0)
    forged = bytearray(answer)
    forged[-1] ^= 1
    with pytest.raises(HandshakeError):
        a.take(parse_handshake(bytes(forged)), 0.0)
    with pytest.raises(HandshakeError):
        a.take(parse_handshake(answer), 0.0)
    again, _ = a.repeat(1.0)
    assert kind_of(again) is PacketKind.XX_1
    answer, _ = b.take(parse_handshake(again), 1.0)
    assert a.take(parse_handshake(answer), 1.0)[1] is not None


def test_answers_nobody_waits_for():
    a, b = sides()
    answer, _ = b.take(parse_handshake(a.begin(0.0)), 0.0)
    a.withdraw()
    with pytest.raises(HandshakeError, match="nobody waits"):
        a.take(parse_handshake(answer), 0.0)


def test_b25_a_flood_of_handshakes_is_answered_at_a_bounded_rate():
    a, b = sides()
    n_answered = 0
    for i in range(300):
        packet = parse_handshake(a.begin(0.0))
        a.withdraw()
        try:
            b.take(packet, i / 100)
        except HandshakeError:
            continue
        n_answered += 1
    assert 20 <= n_answered <= 20 + 2 * 3 + 1


def test_the_peer_gets_a_moment_to_confirm():
    a, b = sides()
    b.take(parse_handshake(a.begin(0.0)), 0.0)
    assert not b.may_begin(0.5)
    assert b.may_begin(1.0)
