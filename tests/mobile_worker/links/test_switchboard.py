"""The switchboard with links that are plain objects: who gets what, and what next."""

import os

import pytest

from mobile_worker.links.door import MAX_STRANGERS
from mobile_worker.links.events import (
    Arrived,
    LostReason,
    PathKind,
    PeerBack,
    PeerLost,
    RelayChanged,
    Undelivered,
    UndeliveredReason,
)
from mobile_worker.links.presence import Presence
from mobile_worker.links.relay_side import RelaySide
from mobile_worker.links.switchboard import Switchboard
from mobile_worker.messages import Cancel, Placement, encode_message
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.descriptor import NetworkDescriptor, sign_descriptor
from mobile_worker.session.packets import SEALED_HEAD, PacketKind, unknown_packet
from relay.frame_types import NackReason
from relay.tokens import Role
from tests.support.nodes import identity, settings_of, welcome_of


class HandClock:
    """Stands until it is moved."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def wall_us(self):
        return 1_800_000_000_000_000


class FakeRelay:
    """Keeps packets until a test carries them."""

    kind = PathKind.RELAY

    def __init__(self):
        self.up = True
        self.open_to = MessageClass.BULK
        self.crowded = False
        self.sent = []
        self.watched = set()
        self.queue_bytes = 1 << 20

    def send(self, peer, packet):
        self.sent.append((peer, packet.payload))

    def watch(self, peers):
        self.watched.update(peers)


class Post:
    """One switchboard on a fake relay."""

    def __init__(self, number, clock):
        self.clock = clock
        self.dialled = []
        settings = settings_of(number, role=Role.WORKER)
        self.presence = Presence(settings, clock)
        self.board = Switchboard(self.presence, clock, self.dialled.append)
        self.relay = FakeRelay()
        self.board.relays = (self.relay,)
        self.side = RelaySide(self.board, self.presence, clock, lambda *news: None)
        self.id = identity(number).peer_id
        self.welcome = welcome_of(b"")

    def send(self, peer, message):
        state = self.board.state_of(peer)
        state.session.add(encode_message(message), MessageClass.CONTROL)
        self.board.pump(peer, state)

    def events(self):
        found = []
        while len(self.board.arrivals):
            event, receipt = self.board.arrivals._events.popleft()
            if receipt is not None:
                self.board._taken(receipt)
            found.append(event)
        return found


def carry(*posts):
    """Carry packets between posts until all are silent."""
    boards = {post.id: post for post in posts}
    moved = True
    while moved:
        moved = False
        for post in posts:
            sent, post.relay.sent = post.relay.sent, []
            for peer, payload in sent:
                moved = True
                if peer in boards:
                    there = boards[peer]
                    there.board.packet_arrived(there.relay, post.id, payload)


@pytest.fixture
def pair():
    clock = HandClock()
    a, b = Post(1, clock), Post(2, clock)
    a.send(b.id, Cancel(request=1))
    carry(a, b)
    assert b.events() == [Arrived(a.id, Cancel(request=1), 19)]
    return a, b


def test_a_message_arrives_and_the_peer_is_watched(pair):
    a, b = pair
    assert b.id in a.relay.watched
    assert a.id in b.relay.watched
    assert a.board.traffic.up_bytes[PathKind.RELAY] > 0
    assert a.board.traffic.down_bytes == b.board.traffic.up_bytes
    assert b.dialled == [a.id]


def test_b25_a_message_that_does_not_parse_costs_its_sender_the_session(pair, caplog):
    a, b = pair
    state = a.board.peers[b.id]
    state.session.add(b"\x80\x04 no message", MessageClass.CONTROL)
    a.board.pump(b.id, state)
    carry(a, b)
    assert b.events() == [PeerLost(a.id, LostReason.FORBIDDEN)]
    assert a.id not in b.board.peers
    assert len(caplog.records) == 1
    assert b.board.traffic.n_refused == 1
    a.send(b.id, Cancel(request=2))  # sealed with keys that b forgot
    carry(a, b)
    a.events()
    a.clock.now += 2
    a.send(b.id, Cancel(request=3))
    carry(a, b)
    assert Arrived(a.id, Cancel(request=3), 19) in b.events()


def test_b25_strangers_packets_make_no_state(pair):
    a, _ = pair
    stranger = identity(9).peer_id
    for packet in (b"", b"\0", b"\x10" + bytes(50), b"\x11" + bytes(4), os.urandom(60)):
        a.board.packet_arrived(a.relay, stranger, packet)
    assert stranger not in a.board.peers
    hints = [payload for peer, payload in a.relay.sent if peer == stranger]
    assert all(hint[0] == PacketKind.UNKNOWN for hint in hints)
    for _ in range(100):
        a.board.packet_arrived(a.relay, stranger, b"\x10" + bytes(50))
    assert len(a.relay.sent) <= 20


def test_a_peer_that_is_not_there_is_lost_and_its_messages_dropped():
    a = Post(1, HandClock())
    other = identity(2).peer_id
    a.send(other, Cancel(request=1))
    a.send(other, Cancel(request=2))
    a.side.frames_refused(a.relay, other, NackReason.NOT_HERE, 1)
    assert a.events() == [
        Undelivered(other, UndeliveredReason.NOT_HERE, 2),
        PeerLost(other, LostReason.GONE),
    ]


def test_a_peer_that_leaves_is_lost_once(pair):
    a, b = pair
    a.side.peer_present(a.relay, b.id, here=False)
    a.side.peer_present(a.relay, b.id, here=False)
    a.side.frames_refused(a.relay, b.id, NackReason.GONE, 3)
    assert a.events() == [PeerLost(b.id, LostReason.GONE)]
    a.side.peer_present(a.relay, b.id, here=True)
    assert a.events() == [PeerBack(b.id)]
    a.send(b.id, Cancel(request=5))
    carry(a, b)
    a.side.peer_present(a.relay, b.id, here=True)
    assert a.events() == []
    assert b.events() == [Arrived(a.id, Cancel(request=5), 19)]


@pytest.mark.parametrize(
    ("nack", "reason"),
    [
        (NackReason.QUEUE_FULL, UndeliveredReason.QUEUE_FULL),
        (NackReason.EXPIRED, UndeliveredReason.EXPIRED),
        (NackReason.RATE, UndeliveredReason.REFUSED),
        (NackReason.NOT_ALLOWED, UndeliveredReason.REFUSED),
    ],
)
def test_other_refusals_are_told_and_lose_nobody(pair, nack, reason):
    a, b = pair
    a.side.frames_refused(a.relay, b.id, nack, 2)
    assert a.events() == [Undelivered(b.id, reason, 2)]


def test_losing_our_relay_loses_no_peer(pair):
    a, b = pair
    a.relay.up, a.relay.open_to = False, None
    a.side.relay_down(a.relay, (), "cut")
    a.send(b.id, Cancel(request=7))
    for _ in range(100):
        a.clock.now += 1
        a.board.tick()
    assert a.events() == [RelayChanged(up=False, detail="cut")]
    a.relay.up, a.relay.open_to = True, MessageClass.BULK
    a.board.tick()
    carry(a, b)
    assert b.events() == [Arrived(a.id, Cancel(request=7), 19)]


def test_peers_get_time_to_come_back_to_a_restarted_relay(pair):
    a, b = pair
    a.side.relay_down(a.relay, (), "restart")
    a.side.relay_up(a.relay, a.welcome)
    a.send(b.id, Cancel(request=2))
    a.side.peer_present(a.relay, b.id, here=False)
    for _ in range(50):
        a.clock.now += 0.2
        a.board.tick()
    assert not a.relay.sent
    a.side.peer_present(a.relay, b.id, here=True)
    carry(a, b)
    assert b.events() == [Arrived(a.id, Cancel(request=2), 19)]
    assert [type(event) for event in a.events()] == [RelayChanged, RelayChanged]


def test_a_peer_that_does_not_come_back_is_lost(pair):
    a, b = pair
    a.side.relay_up(a.relay, a.welcome)
    a.side.peer_present(a.relay, b.id, here=False)
    for _ in range(100):
        a.clock.now += 0.2
        a.board.tick()
    assert a.events()[1:] == [PeerLost(b.id, LostReason.GONE)]


def test_a_peer_that_never_answers_is_unreachable():
    a = Post(1, HandClock())
    other = identity(2).peer_id
    a.send(other, Cancel(request=1))
    for _ in range(200):
        a.clock.now += 0.2
        a.board.tick()
    assert a.events() == [
        Undelivered(other, UndeliveredReason.LOST, 1),
        PeerLost(other, LostReason.UNREACHABLE),
    ]


def test_a_restarted_peer_is_lost_and_there_again(pair):
    a, _ = pair
    reborn = Post(2, a.clock)
    reborn.send(a.id, Cancel(request=9))
    carry(a, reborn)
    assert a.events() == [
        PeerLost(reborn.id, LostReason.RESTARTED),
        Arrived(reborn.id, Cancel(request=9), 19),
    ]


def test_a_farewell_loses_the_peer_at_once(pair):
    a, b = pair
    b.board.close()
    carry(a, b)
    assert a.events() == [PeerLost(b.id, LostReason.GONE)]


def test_a_peer_that_is_not_taken_from_is_held_back(pair):
    a, b = pair
    for request in range(20_000):
        a.send(b.id, Cancel(request=request))
    carry(a, b)
    assert len(b.board.arrivals) < 5000
    n = 0
    while events := b.events():
        n += len(events)
        carry(a, b)
    assert n == 20_000


def test_handshakes_of_ever_new_ids_fill_nothing(pair):
    a, b = pair
    stranger = Post(3, a.clock)
    stranger.send(a.id, Cancel(request=1))
    ((_, first),) = stranger.relay.sent
    for number in range(3000):
        claimed = number.to_bytes(32, "big")
        a.board.packet_arrived(a.relay, claimed, first)
    assert len(a.board.peers) <= MAX_STRANGERS + 1
    assert b.id in a.board.peers
    assert a.relay.watched == {b.id}
    assert a.events() == []


def test_what_only_the_market_says_is_dropped_and_its_credit_given_back(pair):
    a, b = pair
    network, market = identity(7), identity(8).peer_id
    descriptor = NetworkDescriptor(
        network=network.peer_id, market=market, ledger=identity(9).peer_id
    )
    b.presence.descriptor = sign_descriptor(descriptor, network.sign)
    placement = Placement(
        manifest_hash=bytes(32),
        serial=1,
        price_table=bytes(50_000),
        price_signature=bytes(64),
        holders=(),
    )
    for request in range(20):  # 1 MB: more than is ever granted ahead
        a.send(b.id, placement)
        a.send(b.id, Cancel(request=request))
        carry(a, b)
    assert b.events() == [Arrived(a.id, Cancel(request=n), 19) for n in range(20)]
    assert a.board.peers[b.id].session.needs_time is False
    assert b.board.traffic.n_refused == 20


@pytest.mark.parametrize(
    "junk",
    [
        unknown_packet(77),
        SEALED_HEAD.pack(PacketKind.SEALED, 77, 1) + bytes(40),
        bytes((PacketKind.XX_1,)) + bytes(16) + os.urandom(32),
    ],
)
def test_what_a_relay_can_make_itself_is_no_sign_of_life(pair, junk):
    a, b = pair
    meter = a.board.peers[b.id].at(a.relay).meter
    before = meter.alive_at
    a.clock.now += 1.0
    a.board.packet_arrived(a.relay, b.id, junk)
    assert meter.alive_at == before
    b.send(a.id, Cancel(request=2))
    carry(a, b)
    assert meter.alive_at == a.clock.now
