"""Two nodes' switchboards, joined by slow wires on a clock that is moved by hand.

The queues are the product's own: a direct link's lanes, a client's send queue, the
relay's queue for a destination. Sockets and networks are played: a kernel that holds
64 KiB of unsent bytes, a `Line` of so many bytes a second and so much delay. Nothing
here waits, so a shard that takes 13 s to pass costs the test a fraction of a second.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from mobile_worker.links.direct import DirectLink
from mobile_worker.links.events import Arrived, PathKind
from mobile_worker.links.lanes import Lanes
from mobile_worker.links.meter import Meter
from mobile_worker.links.presence import Presence
from mobile_worker.links.relay_side import RelaySide
from mobile_worker.links.switchboard import Switchboard
from mobile_worker.messages import Message, MessageClass, encode_message
from mobile_worker.session.packets import Packet
from relay.defaults import BATCH_BYTES
from relay.frame_types import FrameClass, Send
from relay.frames import DATA_HEADER
from relay.limits import lane_caps, limits_of
from relay.queues import DestinationQueue, QueueBudget
from relay.send_queue import SendQueue
from relay.tokens import RateClass, Role
from tests.support.injector.conditions import Path
from tests.support.injector.line import Line, Wire
from tests.support.nodes import identity, settings_of, welcome_of

__all__ = ["HandClock", "Pair", "direct_pair", "relayed_pair"]

_LOWAT_BYTES = 64 << 10
_SEND_QUEUE_BYTES = 4 << 20
_STEP_S = 0.005


class HandClock:
    """Stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        """Return the time by hand."""
        return self.now

    def wall_us(self) -> int:
        """Return a fixed day."""
        return 1_800_000_000_000_000


@dataclass(slots=True)
class Hop:
    """A writer with its kernel and the wire behind it; whole frames come out.

    take: what the writer would write next, of about so many bytes. arrive: gets each
    frame when its last byte has left the wire.
    """

    take: Callable[[int], list[bytes]]
    arrive: Callable[[bytes], None]
    line: Line
    batch_bytes: int
    kernel: bytearray = field(default_factory=bytearray)
    frames: list[tuple[int, bytes]] = field(default_factory=list)  # end, frame
    n_written: int = 0
    n_out: int = 0

    def move(self, now: float) -> None:
        """Write, transmit and bring what is due."""
        while len(self.kernel) < _LOWAT_BYTES:
            batch = self.take(self.batch_bytes)
            if not batch:
                break
            for frame in batch:
                self.n_written += len(frame)
                self.frames.append((self.n_written, frame))
                self.kernel += frame
        while self.kernel and (room := self.line.room):
            self.line.put(bytes(self.kernel[:room]), now)
            del self.kernel[:room]
        left = len(self.line.take(now).chunk)
        self.line.sent(left)
        self.n_out += left
        while self.frames and self.frames[0][0] <= self.n_out:
            self.arrive(self.frames.pop(0)[1])


class PlayedDirect(DirectLink):
    """A direct link without a socket."""

    def __init__(self, peer: bytes, clock: HandClock) -> None:
        self.peer = peer
        self.meter = Meter()
        self.opened_at = self.meter.alive_at = clock.now
        self._lanes = Lanes()
        self._begun = None
        self._reason = None

    def send(self, peer: bytes, packet: Packet) -> None:
        """Queue it."""
        assert peer == self.peer
        self._lanes.put(packet)

    def abort(self, reason: str) -> None:
        """Fail the test: no link ends here."""
        raise AssertionError(reason)

    def take(self, n_bytes: int) -> list[bytes]:
        """Return what would be written."""
        return [packet.payload for packet in self._lanes.take(8, n_bytes)]


class PlayedRelayLink:
    """A node's connection to the relay: its send queue."""

    kind = PathKind.RELAY
    up = True
    open_to = MessageClass.BULK
    crowded = False

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.welcome = welcome_of(b"", RateClass.PHONE)
        self.queue_bytes = self.welcome.limits.queue_bytes
        self.queue = SendQueue(_SEND_QUEUE_BYTES)

    def send(self, peer: bytes, packet: Packet) -> None:
        """Queue it as a SEND frame."""
        self.queue.put(
            Send(
                destination=peer,
                payload=packet.payload,
                frame_class=FrameClass(packet.message_class),
                flow=0,
                ttl_ms=10_000,
                nack=True,
            ),
            self._clock.now,
        )

    def watch(self, peers: object) -> None:
        """Nobody comes or goes."""

    def take(self, n_bytes: int) -> list[bytes]:
        """Return what would be written."""
        taken = self.queue.take(n_bytes, self._clock.now)
        assert not taken.expired
        return taken.frames


class Post:
    """One node."""

    def __init__(self, number: int, clock: HandClock) -> None:
        settings = settings_of(number, role=Role.WORKER)
        self.clock = clock
        self.peer_id = identity(number).peer_id
        self.presence = Presence(settings, clock)
        self.board = Switchboard(self.presence, clock, lambda _peer: None)
        self.arrived: list[tuple[float, Message]] = []

    def send(self, peer: bytes, message: Message, message_class: MessageClass) -> None:
        """Send as a node does."""
        state = self.board.state_of(peer)
        state.session.add(encode_message(message), message_class)
        self.board.pump(peer, state)

    def collect(self) -> None:
        """Consume all that has arrived."""
        while len(self.board.arrivals):
            event, receipt = self.board.arrivals._events.popleft()
            if receipt is not None:
                self.board._taken(receipt)
            if isinstance(event, Arrived):
                self.arrived.append((self.clock.now, event.message))
            else:
                assert "Relay" in type(event).__name__, event


@dataclass(slots=True)
class Pair:
    """Two nodes and the hops between them."""

    clock: HandClock
    a: Post
    b: Post
    hops: list[Hop]
    writable: list[Callable[[], None]]
    _n_steps: int = 0

    def step(self) -> None:
        """Pass 5 ms."""
        self.clock.now += _STEP_S
        self._n_steps += 1
        for hop in self.hops:
            hop.move(self.clock.now)
        for tell in self.writable:
            tell()
        for post in (self.a, self.b):
            if self._n_steps % 40 == 0:
                post.board.tick()
            post.collect()


def direct_pair(path: Path) -> Pair:
    """Return two nodes on a direct link that is like `path` both ways."""
    clock = HandClock()
    a, b = Post(1, clock), Post(2, clock)
    to_b, to_a = PlayedDirect(b.peer_id, clock), PlayedDirect(a.peer_id, clock)
    hops = []
    for out, there, back in ((to_b, b, to_a), (to_a, a, to_b)):

        def arrive(
            packet: bytes, there: Post = there, back: PlayedDirect = back
        ) -> None:
            back.meter.alive_at = clock.now
            there.board.packet_arrived(back, back.peer, packet)

        line = Line(Wire(path, clock.now), clock.now)
        hops.append(Hop(out.take, arrive, line, 256 << 10))
    a.board.state_of(b.peer_id).session.begin(clock.now)
    a.board.link_added(to_b)
    b.board.link_added(to_a)
    writable = [
        lambda: a.board.link_writable(to_b),
        lambda: b.board.link_writable(to_a),
    ]
    return Pair(clock, a, b, hops, writable)


def relayed_pair(first: Path, last: Path) -> Pair:
    """Return two nodes at one relay; a's way to it, and b's way from it."""
    clock = HandClock()
    a, b = Post(1, clock), Post(2, clock)
    budget = QueueBudget(max_bytes=64 << 20)
    hops = []
    links = {}
    for post in (a, b):
        links[post.peer_id] = PlayedRelayLink(clock)
        post.board.relays = (links[post.peer_id],)
        side = RelaySide(post.board, post.presence, clock, lambda *_: None)
        side.relay_up(links[post.peer_id], links[post.peer_id].welcome)
    for source, target, ways in ((a, b, (first, last)), (b, a, (last, first))):
        queue = DestinationQueue(lane_caps(limits_of(RateClass.PHONE)), budget)

        def switch(
            message: bytes,
            queue: DestinationQueue = queue,
            source: Post = source,
        ) -> None:
            assert queue.push(source.peer_id, message, clock.now) is None

        def take(n_bytes: int, queue: DestinationQueue = queue) -> list[bytes]:
            due, shed = queue.take(n_bytes, clock.now)
            assert not shed
            return [waiting.message for waiting in due]

        def arrive(
            message: bytes, source: Post = source, target: Post = target
        ) -> None:
            payload = message[DATA_HEADER.size :]
            link = links[target.peer_id]
            target.board.packet_arrived(link, source.peer_id, payload)

        takes = (links[source.peer_id].take, take)
        for each, then, way in zip(takes, (switch, arrive), ways, strict=True):
            line = Line(Wire(way, clock.now), clock.now)
            hops.append(Hop(each, then, line, BATCH_BYTES))
    return Pair(clock, a, b, hops, [])
