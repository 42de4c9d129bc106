"""One handshake: records as payload, and all that must make it fail."""

import os

import pytest

from mobile_worker.errors import HandshakeError
from mobile_worker.session.handshake import Attempt, OwnSide, prologue
from mobile_worker.session.identity import Identity
from mobile_worker.session.noise import Pattern
from mobile_worker.session.packets import HandshakePacket, PacketKind, parse_handshake
from tests.support.sessions import NETWORK, make_record

ONE, OTHER, STRANGER = (Identity.generate() for _ in range(3))


def own_side(identity, *, network=NETWORK, record=None):
    record = record or make_record(identity)
    return OwnSide(
        identity=identity,
        network=network,
        instance=os.urandom(8),
        record=lambda: record.encoded,
        random_bytes=os.urandom,
    )


def attempts(pattern, *, one=None, other=None, names=None, known=None):
    """Both sides; `names`: whom each believes to speak with."""
    first, second = names or (OTHER.peer_id, ONE.peer_id)
    static = known or OTHER.static_key
    a = Attempt(
        one or own_side(ONE),
        first,
        pattern,
        remote_static=static if pattern is Pattern.IK else None,
        initiator=True,
    )
    b = Attempt(other or own_side(OTHER), second, pattern, initiator=False)
    return a, b


def run(a, b):
    """Carry packets until neither answers; return both results."""
    results = {}
    packet, receiver, other = a.begin(), b, a
    while packet is not None:
        packet, results[receiver] = receiver.take(parse_handshake(packet), 0.0)
        receiver, other = other, receiver
    return results.get(a), results.get(b)


@pytest.mark.parametrize("pattern", Pattern)
def test_both_sides_get_keys_and_records(pattern):
    for_a, for_b = run(*attempts(pattern))
    assert for_a.record.peer_id == OTHER.peer_id
    assert for_b.record.peer_id == ONE.peer_id
    assert for_a.channel.session_id == for_b.channel.session_id
    assert for_a.channel.remote == for_b.channel.local
    assert for_b.channel.open(for_a.channel.seal(b"there")) == b"there"
    assert for_a.channel.open(for_b.channel.seal(b"back")) == b"back"


def test_the_prologue_names_both_and_the_network():
    text = prologue(NETWORK, ONE.peer_id, OTHER.peer_id)
    assert text == b"p2pmoe e2e v1" + NETWORK + ONE.peer_id + OTHER.peer_id


@pytest.mark.parametrize("pattern", Pattern)
def test_another_network_fails(pattern):
    with pytest.raises(HandshakeError):
        run(*attempts(pattern, other=own_side(OTHER, network=bytes(32))))


@pytest.mark.parametrize("pattern", Pattern)
def test_a_relay_that_swaps_the_source_fails(pattern):
    """What ONE begins reaches OTHER under the name of STRANGER."""
    with pytest.raises(HandshakeError):
        run(*attempts(pattern, names=(OTHER.peer_id, STRANGER.peer_id)))


@pytest.mark.parametrize("pattern", Pattern)
def test_a_relay_that_swaps_the_destination_fails(pattern):
    """What ONE sends to STRANGER reaches OTHER."""
    with pytest.raises(HandshakeError):
        run(*attempts(pattern, names=(STRANGER.peer_id, ONE.peer_id)))


@pytest.mark.parametrize("pattern", Pattern)
def test_somebody_elses_record_is_refused(pattern):
    """STRANGER plays ONE with ONE's own record, but not ONE's key."""
    liar = OwnSide(
        identity=STRANGER,
        network=NETWORK,
        instance=bytes(8),
        record=lambda: make_record(ONE).encoded,
        random_bytes=os.urandom,
    )
    with pytest.raises(HandshakeError):
        run(*attempts(pattern, one=liar))


@pytest.mark.parametrize("pattern", Pattern)
def test_a_record_with_another_session_key_is_refused(pattern):
    record = make_record(OTHER, static_key=STRANGER.static_key)
    with pytest.raises(HandshakeError, match="another key"):
        run(*attempts(pattern, other=own_side(OTHER, record=record)))


@pytest.mark.parametrize("pattern", Pattern)
def test_something_that_is_no_record_is_refused(pattern):
    side = own_side(OTHER)
    side.record = lambda: b"hello"
    with pytest.raises(HandshakeError, match="no record"):
        run(*attempts(pattern, other=side))


def test_a_stale_key_fails():
    with pytest.raises(HandshakeError):
        run(*attempts(Pattern.IK, known=STRANGER.static_key))


def test_packets_out_of_turn_are_refused():
    a, b = attempts(Pattern.XX)
    first = parse_handshake(a.begin())
    with pytest.raises(HandshakeError, match="not due"):
        b.take(first._replace(kind=PacketKind.IK_1), 0.0)
    answer, _ = b.take(first, 0.0)
    with pytest.raises(HandshakeError, match="not due"):
        b.take(first, 0.0)
    with pytest.raises(HandshakeError, match="not due"):
        a.take(parse_handshake(answer)._replace(receiver=a.local ^ 1), 0.0)


def test_a_payload_in_the_clear_is_refused():
    _, b = attempts(Pattern.XX)
    packet = HandshakePacket(PacketKind.XX_1, 1, 0, bytes(8), os.urandom(32) + b"x")
    with pytest.raises(HandshakeError, match="in the clear"):
        b.take(packet, 0.0)
