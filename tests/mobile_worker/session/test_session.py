"""The session: two of them, and everything a network can do to their packets."""

import contextlib
import os
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mobile_worker.errors import HandshakeError, ProtocolBreach, SealError
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.channel import MAX_AGE_S, MAX_PACKETS
from mobile_worker.session.flow import FIRST_WINDOW_BYTES
from mobile_worker.session.identity import Identity
from mobile_worker.session.outcomes import (
    Delivered,
    Established,
    Failed,
    Farewell,
    ProbeAnswered,
)
from mobile_worker.session.packets import (
    PIECE_HEAD,
    STREAM_HEAD,
    FrameKind,
    PacketKind,
    unknown_packet,
)
from mobile_worker.session.session import Session
from tests.support.sessions import exchange, join, make_record, make_side

BULK = MessageClass.BULK


def joined(**options):
    a, b = join(**options)
    a.send(b"first")
    exchange(a, b)
    assert b.delivered == [b"first"]
    a.consume_all()
    b.consume_all()
    return a, b


def established(side):
    return [o for o in side.outcomes if isinstance(o, Established)]


@pytest.mark.parametrize("knows", [True, False])
def test_messages_wait_for_the_handshake(knows):
    a, b = join(knows=knows)
    for i in range(3):
        a.send(b"%d" % i)
    exchange(a, b)
    assert b.delivered == [b"0", b"1", b"2"]
    assert a.session.record == make_record(b.identity)
    assert a.session.session_id == b.session.session_id
    assert not established(a)[0].restarted
    assert not a.session.needs_time


@pytest.mark.parametrize("knows", [True, False])
def test_both_begin_at_once(knows):
    a, b = join(knows=knows)
    a.send(b"from a")
    b.send(b"from b")
    exchange(a, b)
    assert (a.delivered, b.delivered) == ([b"from b"], [b"from a"])
    assert a.session.session_id == b.session.session_id


def test_replayed_packets_are_taken_once():
    a, b = joined()
    a.send(b"once")
    [packet] = a.packets()
    b.receive(packet)
    for _ in range(3):
        with pytest.raises(SealError):
            b.receive(packet)
    assert b.delivered == [b"once"]


def test_reordered_packets_are_all_taken():
    a, b = joined()
    for i in range(200):
        a.send(b"%d" % i)
    packets = a.packets()
    random.Random(1).shuffle(packets)
    for packet in packets:
        b.receive(packet)
    assert sorted(b.delivered, key=int) == [b"%d" % i for i in range(200)]


def test_packets_beyond_the_window_are_too_old():
    a, b = joined()
    a.send(b"late")
    [late] = a.packets()
    for _ in range(2048):
        a.session.add(b"x", BULK)
    for packet in a.packets():
        b.receive(packet)
    with pytest.raises(SealError, match="too old"):
        b.receive(late)


def test_tampered_packets_change_nothing():
    a, b = joined()
    a.send(b"right")
    [packet] = a.packets()
    for at in range(len(packet)):
        broken = bytearray(packet)
        broken[at] ^= 0x40
        with contextlib.suppress(SealError, HandshakeError):
            b.receive(bytes(broken))
    assert b.delivered == []
    b.receive(packet)
    assert b.delivered == [b"right"]


def test_a_relay_that_swaps_sources_gets_nothing_through():
    a, b = joined()
    c, d = joined()
    a.send(b"secret")
    [packet] = a.packets()
    d.session.receive(packet, 0.0)  # as if it came from c
    assert not d.delivered
    assert d.session.replies  # a hint, which c ignores: it names no session of c
    [hint] = d.session.replies
    c.receive(hint)
    assert c.packets() == []
    b.receive(packet)
    assert b.delivered == [b"secret"]


class Storm:
    """Carries packets with loss, doubling and reordering; deterministic by seed."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.a, self.b = join(knows=self.rng.random() < 0.5)
        self.sent = {id(self.a): set(), id(self.b): set()}
        self.flying = []
        self.now = 0.0

    def step(self, *, sending):
        self.now += 0.05
        for side, other in ((self.a, self.b), (self.b, self.a)):
            if sending and self.rng.random() < 0.3:
                message = self.rng.randbytes(self.rng.choice((10, 3000, 40_000)))
                side.send(message, self.rng.choice(tuple(MessageClass)))
                self.sent[id(other)].add(message)
            side.outcomes += side.session.on_time(self.now)
            self.flying += [(other, packet) for packet in side.packets(self.now)]
        self.rng.shuffle(self.flying)
        for _ in range(self.rng.randint(0, len(self.flying))):
            self.land(*self.flying.pop())

    def land(self, side, packet):
        if self.rng.random() < 0.2:
            return
        if self.rng.random() < 0.1:
            self.flying.insert(0, (side, packet))
        with contextlib.suppress(SealError, HandshakeError):
            side.receive(packet, self.now)

    def calm(self):
        """Let both repeat what is due, without loss; return what was delivered."""
        found = []
        for _ in range(20):
            self.now += 0.25
            for side in (self.a, self.b):
                side.outcomes += side.session.on_time(self.now)
            exchange(self.a, self.b, self.now)
            for side in (self.a, self.b):
                found += side.delivered
                side.consume_all()
        return found


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32))
def test_any_loss_doubling_and_reordering(seed):
    """What arrives is what was sent, at most once; a few seconds later all is well."""
    storm = Storm(seed)
    for i in range(150):
        storm.step(sending=i < 100)
    for side in (storm.a, storm.b):
        assert len(set(side.delivered)) == len(side.delivered)
        assert set(side.delivered) <= storm.sent[id(side)]
        side.consume_all()
    for side in (storm.a, storm.b):
        storm.calm()
        side.send(b"may meet dead keys", MessageClass.CONTROL)
        storm.calm()
        side.send(b"at last", MessageClass.CONTROL)
        assert storm.calm() == [b"at last"]


def test_rekeying_by_count_and_by_age():
    a, b = joined()
    first = a.session.session_id
    a.send(b"1")
    exchange(a, b, MAX_AGE_S + 1)
    second = a.session.session_id
    assert second != first
    assert second == b.session.session_id
    assert b.delivered == [b"1"]
    a.session._current.n_sent = MAX_PACKETS
    a.send(b"2")
    exchange(a, b, MAX_AGE_S + 2)
    assert a.session.session_id not in (first, second)
    assert b.delivered == [b"1", b"2"]
    assert not any(o.restarted for o in established(a) + established(b))


def test_old_keys_open_late_packets_for_a_minute():
    a, b = joined()
    a.send(b"late")
    a.send(b"too late")
    late, too_late = a.packets()
    a.send(b"new keys")
    exchange(a, b, MAX_AGE_S)
    assert b.delivered == [b"new keys"]
    b.receive(late, MAX_AGE_S + 59)
    assert b.delivered == [b"new keys", b"late"]
    b.receive(too_late, MAX_AGE_S + 61)
    assert b.delivered == [b"new keys", b"late"]


def test_new_keys_count_only_after_a_packet_of_theirs():
    """A first handshake packet that is replayed makes the answerer change nothing."""
    a, b = join()
    a.send(b"first")
    [first] = a.packets()
    b.receive(first)
    exchange(a, b)
    before = b.session.session_id
    b.receive(first)
    assert b.session.replies
    b.session.replies.clear()
    assert b.session.session_id == before
    b.send(b"still there")
    exchange(a, b)
    assert a.delivered == [b"still there"]


def test_a_restarted_peer_says_so_and_gets_fresh_keys():
    a, b = joined()
    reborn = make_side(a.identity.peer_id, b.identity)
    a.send(b"into the void")
    a.send(b"waits", BULK)
    exchange(a, reborn)
    [outcome] = established(a)
    assert outcome.restarted
    assert reborn.delivered == []
    a.send(b"hello again")
    exchange(a, reborn)
    assert reborn.delivered == [b"hello again"]


def test_a_restart_drops_what_waited_for_the_old_process():
    a, b = joined()
    a.send(bytes(FIRST_WINDOW_BYTES + 5000), BULK)
    assert a.packets()
    reborn = make_side(a.identity.peer_id, b.identity, knows=make_record(a.identity))
    reborn.send(b"I am new")
    exchange(a, reborn)
    [outcome] = established(a)
    assert (outcome.restarted, outcome.n_dropped) == (True, 1)
    assert a.delivered == [b"I am new"]


def test_hints_are_heeded_once_a_second_and_only_if_they_fit():
    a, b = joined()
    a.receive(unknown_packet(12345), 0.0)
    assert a.packets(0.0) == []
    index = a.session._current.remote
    a.receive(unknown_packet(index), 0.0)
    a.receive(unknown_packet(index), 0.1)
    packets = a.packets(0.1)
    assert [p[0] for p in packets] == [PacketKind.IK_1]
    a.send(b"not held up")
    exchange(a, b, 0.2)
    assert b.delivered == [b"not held up"]


def test_a_peer_reported_gone_is_proven_anew_before_the_next_message():
    a, b = joined()
    a.session.suspect()
    assert not a.session.established
    a.send(b"are you there")
    packets = a.packets(5.0)
    assert [p[0] for p in packets] == [PacketKind.IK_1]
    for packet in packets:
        b.receive(packet, 5.0)
    exchange(a, b, 5.0)
    assert b.delivered == [b"are you there"]
    a.session.suspect()
    b.send(b"here I am")
    exchange(a, b, 6.0)
    assert a.session.established


def test_nobody_answers():
    a, _ = join()
    for _ in range(3):
        a.send(b"anyone")
    now, outcomes = 0.0, []
    while not outcomes and now < 60:
        a.packets(now)
        now += 0.2
        outcomes = a.session.on_time(now)
    assert outcomes == [Failed(3)]
    assert 10 < now < 25


def test_large_messages_go_in_pieces_under_credit():
    a, b = joined()
    message = random.Random(3).randbytes(2_000_000)
    a.send(message, BULK)
    unacked = a.packets()
    assert sum(map(len, unacked)) <= FIRST_WINDOW_BYTES + 60 * len(unacked)
    for packet in unacked:
        b.receive(packet)
    exchange(a, b, rounds=200)
    assert b.delivered == [message]


def test_what_is_not_taken_is_not_granted():
    a, b = joined()
    for _ in range(30):
        a.send(bytes(10_000))
    exchange(a, b)
    assert len(b.delivered) == FIRST_WINDOW_BYTES // 10_000
    n = 0
    while b.delivered:
        n += len(b.delivered)
        b.consume_all()
        exchange(a, b, float(n))
    assert n == 30


def test_the_window_opens_and_narrows_with_the_path():
    a, b = joined()
    for side in (a, b):
        side.session.set_window(1 << 20, 1 << 20)
    exchange(a, b)
    for _ in range(30):
        a.send(bytes(10_000))
    exchange(a, b)
    assert len(b.delivered) == 30
    b.consume_all()
    for side in (a, b):
        side.session.set_window(64 << 10, 64 << 10)
    for _ in range(30):
        a.send(bytes(10_000))
    for packet in a.packets():
        b.receive(packet)
    assert len(b.delivered) == 6
    for now in range(50):
        b.consume_all()
        a.session.on_time(float(now))
        exchange(a, b, float(now))
    assert not a.session.needs_time


def test_lost_grants_are_asked_for():
    a, b = joined()
    a.send(bytes(FIRST_WINDOW_BYTES), BULK)
    a.send(b"more" * 1000, BULK)
    for packet in a.packets():
        b.receive(packet)
    b.consume_all()
    b.packets()  # its grants are lost
    assert a.packets() == []
    a.session.on_time(1.0)
    exchange(a, b, 1.0)
    assert b.delivered == [b"more" * 1000]


def test_probes_and_farewells():
    a, b = joined()
    b.receive(a.session.probe(77))
    assert b.session.replies
    for reply in b.packets():
        a.receive(reply)
    assert ProbeAnswered(77) in a.outcomes
    b.receive(a.session.farewell())
    assert Farewell() in b.outcomes
    fresh, _ = join()
    assert fresh.session.probe(1) is None
    assert fresh.session.farewell() is None


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x08",
        b"\xff" * 40,
        STREAM_HEAD.pack(FrameKind.WHOLE, 0, 0),
        STREAM_HEAD.pack(FrameKind.WHOLE, 3, 0) + b"m",
        STREAM_HEAD.pack(FrameKind.WHOLE, 0, 1 << 60) + b"m",
        STREAM_HEAD.pack(FrameKind.WHOLE, 0, FIRST_WINDOW_BYTES) + b"m",
        PIECE_HEAD.pack(FrameKind.PIECE, 0, 0, 0, 0, 0),
        PIECE_HEAD.pack(FrameKind.PIECE, 9, 0, 0, 5000, 0) + bytes(2000),
        PIECE_HEAD.pack(FrameKind.PIECE, 0, 0, 0, 1 << 31, 0) + bytes(2000),
        PIECE_HEAD.pack(FrameKind.PIECE, 0, 0, 0, 100, 50) + bytes(51),
        STREAM_HEAD.pack(FrameKind.CREDIT, 3, 0),
        STREAM_HEAD.pack(FrameKind.CREDIT, 0, 0) + b"x",
        STREAM_HEAD.pack(FrameKind.BLOCKED, 0, 1 << 60),
        b"\x05" + bytes(9),
    ],
)
def test_b25_frames_that_break_the_rules(frame):
    a, b = joined()
    with pytest.raises(ProtocolBreach) as caught:
        b.receive(a.session._current.seal(frame))
    assert caught.value.peer == a.identity.peer_id


@given(st.binary(max_size=120))
def test_b25_any_bytes_before_authentication(raw):
    a, _ = join()
    try:
        assert a.session.receive(raw, 0.0) == []
    except (SealError, HandshakeError):
        return


def test_b25_messages_before_authentication_are_not_delivered():
    a, b = joined()
    stranger = make_side(a.identity.peer_id, Identity.generate())
    a.send(b"for b")
    [packet] = a.packets()
    assert stranger.session.receive(packet, 0.0) == []
    assert [r[0] for r in stranger.session.replies] == [PacketKind.UNKNOWN]
    assert b.delivered == []


def test_b24_control_overtakes_a_shard_in_the_queue():
    a, b = joined()
    b.session.set_window(64 << 10, 64 << 10)
    a.send(os.urandom(8 << 20), BULK)
    bulk = a.session.next_packet(0.0)
    assert bulk.message_class is BULK
    assert len(bulk.payload) < 17_000
    a.send(b"ping", MessageClass.CONTROL)
    assert a.session.next_packet(0.0).message_class is MessageClass.CONTROL


def test_delivered_messages_name_their_class():
    a, b = joined()
    for message_class in MessageClass:
        a.send(b"m", message_class)
    exchange(a, b)
    found = [o.message_class for o in b.outcomes if isinstance(o, Delivered)]
    assert found == list(MessageClass)


def test_a_session_forgotten_in_mid_message_begins_no_message_of_its_number():
    a, b = join()
    a.send(bytes(100_000), MessageClass.BULK)  # above the first window: it is not whole
    for packet in a.packets():
        b.receive(packet)
    for packet in b.packets():
        a.receive(packet)
    for packet in a.packets():
        b.receive(packet)
    assert not [each for each in b.outcomes if isinstance(each, Delivered)]
    a.session.close()
    a.session = Session(a.own, a.session.peer, record=b.record)
    a.send(bytes(80_000), MessageClass.BULK)
    exchange(a, b, 10.0)
    [told] = [each for each in b.outcomes if isinstance(each, Delivered)]
    assert told.message == bytes(80_000)
