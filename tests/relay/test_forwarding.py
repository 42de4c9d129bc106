"""The switch: where frames go, what is NACKed, who is told."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay.errors import ProtocolError
from relay.frame_types import (
    FrameClass,
    Gone,
    GoneReason,
    Nack,
    NackReason,
    Ping,
    Pong,
    Presence,
    PresenceState,
    Recv,
    SeenFrom,
    Send,
    Status,
    StatusCode,
    Watch,
)
from relay.frames import encode_frame
from relay.keys import PeerId
from relay.registry import Peer
from tests.support.relays import key
from tests.support.switch_world import SwitchWorld

A, B, C, D = (key(number).peer_id for number in (1, 2, 3, 4))


class Network(SwitchWorld):
    """With a peer of each id, and frames to be sent."""

    def __init__(self, *ids: PeerId) -> None:
        super().__init__()
        self.peers = {peer_id: self.enter(peer_id) for peer_id in ids}

    def send(
        self,
        source: Peer,
        destination: PeerId,
        *,
        size: int = 10,
        nack: bool = True,
        flow: int = 0,
        now: float = 0.0,
        ttl_ms: int = 0,
    ) -> None:
        frame = Send(
            destination=destination,
            payload=bytes(size),
            frame_class=FrameClass.INTERACTIVE,
            flow=flow,
            ttl_ms=ttl_ms,
            nack=nack,
        )
        self.switch.receive(source, encode_frame(frame), now)


def test_a_frame_reaches_its_destination_with_its_source() -> None:
    network = Network(A, B)
    network.send(network.peers[A], B, flow=5)
    [recv] = network.told(network.peers[B])
    assert isinstance(recv, Recv)
    assert (recv.source, recv.flow) == (A, 5)
    assert network.switch.counters.delivered == 1


def test_a_frame_to_nobody_is_nacked() -> None:
    network = Network(A)
    network.send(network.peers[A], B, flow=5)
    network.send(network.peers[A], B, nack=False)
    [nack] = network.told(network.peers[A])
    assert isinstance(nack, Nack)
    assert (nack.destination, nack.reason, nack.count, nack.flow) == (
        B,
        NackReason.NOT_HERE,
        1,
        5,
    )
    assert network.switch.counters.counted[NackReason.NOT_HERE] == 1


def test_a_payload_too_large_is_nacked() -> None:
    network = Network(A, B)
    raw = b"\x10\x05\x00\x00\x00\x00\x00\x00" + B + bytes(65_536)
    network.switch.receive(network.peers[A], raw, 0.0)
    [nack] = network.told(network.peers[A])
    assert isinstance(nack, Nack)
    assert nack.reason is NackReason.TOO_LARGE


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x10",
        b"\x10\x03" + bytes(38),
        b"\x10\x0c" + bytes(38),
        b"\x06",
        encode_frame(Gone(peer=A, reason=GoneReason.SLOW)),
        encode_frame(Status(code=StatusCode.OK, text="")),
        b"\x21" + bytes(200),
        b"\x80\x04\x95pickle",
    ],
)
def test_b25_what_a_peer_may_not_send(raw: bytes) -> None:
    network = Network(A, B)
    if raw[:1] == b"\x80":  # an unknown type above 0x7f is skipped, never decoded
        network.switch.receive(network.peers[A], raw, 0.0)
    else:
        with pytest.raises(ProtocolError):
            network.switch.receive(network.peers[A], raw, 0.0)
    assert network.switch.counters.accepted == 0


def test_a_ping_is_answered() -> None:
    network = Network(A)
    network.switch.receive(network.peers[A], encode_frame(Ping(nonce=b"8 bytes!")), 0.0)
    network.switch.receive(network.peers[A], encode_frame(Pong(nonce=b"8 bytes!")), 0.0)
    assert network.told(network.peers[A]) == [Pong(nonce=b"8 bytes!")]


def test_those_who_spoke_with_a_lost_peer_are_told_at_once() -> None:
    network = Network(A, B, C, D)
    network.send(network.peers[A], B)
    network.send(network.peers[B], C)
    network.switch.leave(network.peers[B], GoneReason.DISCONNECTED, 1.0)
    gone = Gone(peer=B, reason=GoneReason.DISCONNECTED)
    assert gone in network.told(network.peers[A])
    assert isinstance(network.told(network.peers[C])[0], Recv)
    assert network.told(network.peers[C]) == [gone]
    assert not network.told(network.peers[D])


def test_nobody_is_gone_for_others_because_the_relay_ends() -> None:
    network = Network(A, B, C)
    network.send(network.peers[A], B)
    network.switch.receive(network.peers[C], encode_frame(Watch(peers=(B,))), 0.0)
    for peer in (A, B, C):
        network.told(network.peers[peer])
    network.switch.is_ending = True
    network.switch.leave(network.peers[B], GoneReason.DISCONNECTED, 1.0)
    assert [network.told(network.peers[peer]) for peer in (A, C)] == [[], []]


def test_frames_that_waited_for_a_lost_peer_are_nacked() -> None:
    network = Network(A, B)
    for _ in range(3):
        network.send(network.peers[A], B, flow=9)
    network.switch.leave(network.peers[B], GoneReason.SLOW, 1.0)
    told = network.told(network.peers[A])
    [nack] = [frame for frame in told if isinstance(frame, Nack)]
    assert (nack.reason, nack.count) == (NackReason.GONE, 3)


def test_watching() -> None:
    network = Network(A)
    watch = encode_frame(Watch(peers=(B, A)))
    network.switch.receive(network.peers[A], watch, 0.0)
    here, absent = PresenceState.HERE, PresenceState.ABSENT
    assert network.told(network.peers[A]) == [Presence(states=((B, absent), (A, here)))]
    peer = network.enter(B)
    assert network.told(network.peers[A]) == [Presence(states=((B, here),))]
    network.switch.leave(peer, GoneReason.SILENT, 1.0)
    assert network.told(network.peers[A]) == [Gone(peer=B, reason=GoneReason.SILENT)]
    network.switch.receive(network.peers[A], encode_frame(Watch(peers=())), 0.0)
    network.enter(B)
    assert not network.told(network.peers[A])


def test_a_market_alone_is_told_from_where_those_come_whom_it_watches() -> None:
    world = SwitchWorld()
    market, other = world.enter(A, is_market=True), world.enter(C)
    first = world.enter(B, prefix="203.0.113.0/24")
    for watcher in (market, other):
        world.switch.receive(watcher, encode_frame(Watch(peers=(B, D))), 0.0)
    here, absent = PresenceState.HERE, PresenceState.ABSENT
    presence = Presence(states=((B, here), (D, absent)))
    assert world.told(other) == [presence]
    seen = SeenFrom(prefixes=((B, "203.0.113.0/24"),))
    assert world.told(market) == [presence, seen]
    second = world.enter(B, prefix="198.51.100.0/24")
    moved = SeenFrom(prefixes=((B, "198.51.100.0/24"),))
    assert (world.told(market), world.told(other)) == ([moved], [])
    world.leave(second)
    assert (world.told(market), world.told(other)) == ([seen], [])
    world.leave(first)
    world.told(market)
    world.enter(B)  # from where the relay cannot tell
    assert world.told(market)[-1] == SeenFrom(prefixes=((B, ""),))


def test_a_peer_that_watches_far_more_than_it_reads_is_ended() -> None:
    network = Network(A)
    ids = tuple(PeerId(n.to_bytes(32, "big")) for n in range(256))
    watch = encode_frame(Watch(peers=ids))
    # Answers of 8.4 KB each: two queues of a laptop hold 62 of them.
    for _ in range(62):
        network.switch.receive(network.peers[A], watch, 0.0)
    assert not network.ended
    network.switch.receive(network.peers[A], watch, 0.0)
    [(_, reason, text)] = network.ended
    assert (reason, text) == (GoneReason.SLOW, "does not read its notices")


def test_watching_more_than_a_peer_may_ends_nothing() -> None:
    network = Network(A, B)
    peer = network.peers[A]
    for start in range(0, 8192, 256):
        ids = tuple(PeerId(n.to_bytes(32, "big")) for n in range(start, start + 256))
        network.switch.receive(peer, encode_frame(Watch(peers=ids)), 0.0)
        network.told(peer)
    network.switch.receive(peer, encode_frame(Watch(peers=(B,))), 0.0)
    assert network.told(peer) == [Presence(states=((B, PresenceState.HERE),))]
    assert len(peer.watched) == 4096
    assert not network.ended


def test_an_id_that_comes_twice() -> None:
    network = Network(A, B)
    older = network.peers[B]
    network.send(network.peers[A], B, flow=1)
    newer = network.enter(B, 1.0)
    [status] = network.told(older)
    assert isinstance(status, Status)
    assert status.code is StatusCode.DUPLICATE_ID
    network.send(network.peers[A], B, flow=2)
    assert [frame.flow for frame in network.told(newer)] == [1, 2]
    network.send(older, A)
    [nack] = network.told(older)
    assert isinstance(nack, Nack)
    assert nack.reason is NackReason.NOT_ALLOWED
    network.switch.leave(newer, GoneReason.DISCONNECTED, 2.0)
    [status] = network.told(older)
    assert isinstance(status, Status)
    assert status.code is StatusCode.OK
    assert not [f for f in network.told(network.peers[A]) if isinstance(f, Gone)]
    network.send(older, A)
    assert isinstance(network.told(network.peers[A])[0], Recv)


def test_a_parked_connection_is_ended_after_ten_seconds() -> None:
    network = Network(A)
    network.enter(A, 1.0)
    network.switch.tick(10.9)
    assert not network.ended
    network.switch.tick(11.0)
    [(peer, _, text)] = network.ended
    assert peer is network.peers[A]
    assert "newer connection" in text


def test_a_silent_peer_is_pinged_and_then_lost() -> None:
    network = Network(A)
    peer = network.peers[A]
    network.switch.tick(14.9)
    assert not network.told(peer)
    network.switch.tick(15.0)
    [ping] = network.told(peer)
    assert isinstance(ping, Ping)
    network.switch.tick(19.9)
    assert not network.ended
    network.switch.tick(20.0)
    assert [(why, text) for _, why, text in network.ended] == [
        (GoneReason.SILENT, "no sign of life")
    ]


def test_any_byte_counts_as_life() -> None:
    network = Network(A)
    peer = network.peers[A]
    network.switch.tick(15.0)
    peer.last_read = 19.0
    network.switch.tick(20.0)
    network.switch.tick(33.9)
    assert not network.ended
    assert peer.pinged_at is None


def test_b29_overflow_tells_the_sender_and_the_slow_peer() -> None:
    network = Network(A, B)
    for flow in range(100):
        network.send(network.peers[A], B, size=8152, flow=flow)
    nacks = [f for f in network.told(network.peers[A]) if isinstance(f, Nack)]
    assert sum(nack.count for nack in nacks) == 100 - 32
    assert [nack.flow for nack in nacks] == list(range(68))
    told = network.told(network.peers[B])
    slow = [frame for frame in told if isinstance(frame, Status)]
    assert [status.code for status in slow] == [StatusCode.SLOW]
    assert len(told) == 33


def test_a_sender_that_does_not_read_its_nacks_is_ended() -> None:
    network = Network(A)
    for flow in range(4097):
        network.send(network.peers[A], B, flow=flow)
    assert network.ended
    assert network.ended[0][1] is GoneReason.SLOW


def test_b28_a_relay_that_stood_still_blames_nobody() -> None:
    network = Network(A)
    peer = network.peers[A]
    network.switch.tick(15.0)
    network.told(peer)
    network.switch.excuse(100.0)  # stopped for 85 s with a ping on its way
    network.switch.tick(100.0)
    assert not network.ended
    network.switch.tick(105.0)
    assert network.ended


def test_b29_a_reader_too_slow_for_one_batch_is_ended() -> None:
    network = Network(A, B)
    reader = network.peers[B]
    for at in range(12):
        network.send(network.peers[A], B, size=8000, now=at * 0.5)
        reader.last_read = at * 0.5
        network.switch.tick(at * 0.5)
        if at == 3:
            reader.outbox.take(1, at * 0.5)  # its writer got on
    assert not network.ended
    reader.last_read = 7.0
    network.switch.tick(7.0)
    [(peer, reason, text)] = network.ended
    assert peer is reader
    assert reason is GoneReason.SLOW
    assert "slow consumer" in text


def test_b29_a_reader_with_nothing_to_read_is_not_slow() -> None:
    network = Network(A)
    for at in range(60):
        network.peers[A].last_read = float(at)
        network.switch.tick(float(at))
    assert not network.ended


def test_throttling_is_told_now_and_then() -> None:
    network = Network(A)
    for now in (100.0, 101.0, 109.0, 110.5):
        network.switch.tell_throttled(network.peers[A], now)
    told = network.told(network.peers[A])
    assert [frame.code for frame in told] == [StatusCode.RATE_LIMITED] * 2
    assert network.switch.counters.throttled == 4


actions = st.one_of(
    st.tuples(
        st.just("send"),
        st.integers(0, 3),
        st.integers(0, 4),
        st.integers(0, 65_535),
        st.booleans(),
    ),
    st.tuples(st.just("take"), st.integers(0, 3)),
    st.tuples(st.just("leave"), st.integers(0, 3)),
    st.tuples(st.just("enter"), st.integers(0, 3)),
)


class History:
    """What a random sequence of steps did, and what its peers were told."""

    def __init__(self) -> None:
        self.ids = [A, B, C, D, key(9).peer_id]
        self.network = Network(*self.ids[:4])
        self.n_told = 0
        self.n_lost_with_sender = 0

    def step(self, kind: str, who: int, rest: list, now: float) -> None:
        peer_id = self.ids[who]
        peer = self.network.peers.get(peer_id)
        if peer is None:
            if kind == "enter":
                self.network.peers[peer_id] = self.network.enter(peer_id, now)
        elif kind == "send":
            to, size, nack = rest
            self.network.send(peer, self.ids[to], size=size, nack=nack, now=now)
        elif kind == "take":
            self.take(peer, now)
        elif kind == "leave":
            self.network.switch.leave(peer, GoneReason.DISCONNECTED, now)
            del self.network.peers[peer_id]
            self.n_lost_with_sender += sum(peer.outbox._nacks.values())

    def take(self, peer: Peer, now: float) -> None:
        frames = self.network.told(peer, now)
        self.n_told += sum(frame.count for frame in frames if isinstance(frame, Nack))

    def n_waiting(self) -> int:
        return sum(
            len(source.frames)
            for peer in self.network.peers.values()
            for lane in peer.outbox.queue._lanes
            for source in lane.sources.values()
        )


@settings(max_examples=150, deadline=None)
@given(st.lists(actions, max_size=80))
def test_nack_conservation(steps: list) -> None:
    """Accepted = delivered + nacked + counted + waiting; each NACK reaches its sender.

    What is counted as nacked was either told or waits in the outbox of its sender; a
    sender that left takes its untold NACKs along.
    """
    history = History()
    counters = history.network.switch.counters
    for number, (kind, who, *rest) in enumerate(steps):
        history.step(kind, who, rest, number * 0.7)
        assert counters.accepted == counters.n_settled + history.n_waiting()
    # Expiries found while a peer's outbox is taken are NACKed to others: twice around.
    for _ in range(2):
        for peer in history.network.peers.values():
            history.take(peer, len(steps) * 0.7)
    assert history.n_told + history.n_lost_with_sender == counters.nacked.total()
    assert history.network.switch.budget.n_bytes == 0
