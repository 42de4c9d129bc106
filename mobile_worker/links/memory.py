"""Several nodes in one process, without sockets, sessions or a relay: for tests.

Messages are encoded and parsed on the way: nothing passes that could not pass a wire.
Delivery is immediate and in order unless a fault is set. Faults are what a network does
to roles: messages that vanish (`cut`, `drop_next`) or come late (`delay`), and nodes
whose relay link breaks (`disconnect`), so that the others see them gone.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio

from mobile_worker.clock import Clock, SystemClock
from mobile_worker.errors import NodeClosed
from mobile_worker.links.arrivals import Arrivals
from mobile_worker.links.events import (
    Arrived,
    LostReason,
    NodeEvent,
    PathKind,
    PeerLost,
    RelayChanged,
    Undelivered,
    UndeliveredReason,
)
from mobile_worker.links.node import NodeSettings, Traffic
from mobile_worker.messages.classes import MessageClass
from mobile_worker.messages.codec import Message, encode_message, parse_message
from mobile_worker.session.descriptor import NetworkDescriptor
from mobile_worker.session.records import PeerRecord, sign_record
from relay.keys import PeerId

__all__ = ["MemoryNetwork", "MemoryNode"]

_RECORD_LIFE_US = 30 * 86_400 * 1_000_000


@dataclass(slots=True)
class _Path:
    """Faults of one direction between two nodes."""

    cut: bool = False
    n_to_drop: int = 0
    delay_s: float = 0.0


class MemoryNetwork:
    """The nodes that can reach each other, and the faults between them."""

    def __init__(self, *, descriptor: NetworkDescriptor | None = None) -> None:
        self.descriptor = descriptor
        self._nodes: dict[PeerId, MemoryNode] = {}
        self._paths: dict[tuple[PeerId, PeerId], _Path] = {}

    @asynccontextmanager
    async def open_node(
        self, settings: NodeSettings, *, clock: Clock | None = None
    ) -> AsyncIterator["MemoryNode"]:
        """Open a node; the others see it gone when the block ends."""
        async with trio.open_nursery() as nursery:
            node = MemoryNode(self, settings, clock or SystemClock(), nursery)
            self._nodes[node.peer_id] = node
            try:
                yield node
            finally:
                self.disconnect(node.peer_id, LostReason.GONE)
                self._nodes.pop(node.peer_id, None)
                node.close()
                nursery.cancel_scope.cancel()

    def cut(self, one: PeerId, other: PeerId) -> None:
        """Let messages between two nodes vanish silently, both ways."""
        self._path(one, other).cut = self._path(other, one).cut = True

    def heal(self, one: PeerId, other: PeerId) -> None:
        """Undo `cut`."""
        self._path(one, other).cut = self._path(other, one).cut = False

    def drop_next(self, source: PeerId, destination: PeerId, n: int = 1) -> None:
        """Let the next `n` messages in this direction vanish silently."""
        self._path(source, destination).n_to_drop += n

    def delay(self, source: PeerId, destination: PeerId, seconds: float) -> None:
        """Deliver messages in this direction so much later from now on."""
        self._path(source, destination).delay_s = seconds

    def disconnect(self, peer: PeerId, reason: LostReason = LostReason.GONE) -> None:
        """Break the node's link to the relay: others that know it see it gone."""
        node = self._nodes.get(peer)
        if node is None or not node.connected:
            return
        node.connected = False
        node.tell(RelayChanged(up=False, detail="disconnected"))
        for other in self._nodes.values():
            if peer in other.known and other.connected:
                other.known.discard(peer)
                other.tell(PeerLost(peer, reason))

    def reconnect(self, peer: PeerId) -> None:
        """Bring the node's link to the relay back."""
        node = self._nodes[peer]
        if not node.connected:
            node.connected = True
            node.tell(RelayChanged(up=True, detail="reconnected"))

    def carry(self, source: "MemoryNode", destination: PeerId, frame: bytes) -> None:
        """Bring a frame from one node to another, faults permitting."""
        path = self._path(source.peer_id, destination)
        if path.cut:
            return
        if path.n_to_drop:
            path.n_to_drop -= 1
            return
        if path.delay_s > 0 or source.outbox.get(destination):
            source.deliver_later(destination, frame, path.delay_s)
        else:
            self.deliver(source, destination, frame)

    def deliver(self, source: "MemoryNode", destination: PeerId, frame: bytes) -> None:
        """Hand a frame over now, or tell the sender that it cannot be."""
        node = self._nodes.get(destination)
        if node is None or not node.connected or not source.connected:
            source.tell(Undelivered(destination, UndeliveredReason.NOT_HERE))
            return
        source.known.add(destination)
        node.known.add(source.peer_id)
        source.learn(node.record)
        node.learn(source.record)
        node.take(source.peer_id, frame)

    def _path(self, source: PeerId, destination: PeerId) -> _Path:
        return self._paths.setdefault((source, destination), _Path())


class MemoryNode:
    """A `Node` of a MemoryNetwork."""

    def __init__(
        self,
        network: MemoryNetwork,
        settings: NodeSettings,
        clock: Clock,
        nursery: trio.Nursery,
    ) -> None:
        self.connected = True
        self.known: set[PeerId] = set()
        self.outbox: dict[PeerId, deque[tuple[float, bytes]]] = {}
        self.traffic = Traffic()
        self._network = network
        self._identity = settings.identity
        self._nursery = nursery
        self._records: dict[PeerId, PeerRecord] = {}
        self._arrivals: Arrivals[None] = Arrivals(lambda _receipt: None)
        self._closed = False
        self._record = sign_record(
            PeerRecord(
                peer_id=settings.identity.peer_id,
                static_key=settings.identity.static_key,
                role=settings.role,
                relays=(),
                direct_addresses=settings.advertise,
                capabilities=settings.capabilities,
                self_test=settings.self_test,
                not_after_us=clock.wall_us() + _RECORD_LIFE_US,
                sequence=clock.wall_us(),
            ),
            settings.identity.sign,
        )

    @property
    def peer_id(self) -> PeerId:
        """Our own id."""
        return self._identity.peer_id

    @property
    def relay_heard_s(self) -> float | None:
        """Nothing is ever silent here."""
        return 0.0 if self.connected else None

    @property
    def record(self) -> PeerRecord:
        """Our own signed record."""
        return self._record

    @property
    def descriptor(self) -> NetworkDescriptor | None:
        """The descriptor that the network was made with."""
        return self._network.descriptor

    def send(
        self,
        peer: PeerId,
        message: Message,
        *,
        message_class: MessageClass | None = None,
    ) -> None:
        """Send to another node of the network, known or not."""
        del message_class  # one order for all classes here
        if self._closed:
            raise NodeClosed("the node is closed")
        frame = encode_message(message)
        self.traffic.up_bytes[PathKind.MEMORY] += len(frame)
        self._network.carry(self, peer, frame)

    def arrivals(self) -> AsyncIterator[NodeEvent]:
        """Iterate over events; for one consumer. Ends when the node closes."""
        return self._arrivals

    def learn(self, record: PeerRecord) -> None:
        """Take note of a peer's record, unless a newer one is known."""
        known = self._records.get(record.peer_id)
        if known is None or known.sequence < record.sequence:
            self._records[record.peer_id] = record

    def forget(self, peer: PeerId) -> None:
        """Drop what is known of a peer and what waits for it."""
        self._records.pop(peer, None)
        self.outbox.pop(peer, None)
        self.known.discard(peer)

    def path(self, peer: PeerId) -> PathKind | None:
        """Tell whether messages were exchanged with the peer."""
        return PathKind.MEMORY if peer in self.known else None

    def waiting_bytes(self, peer: PeerId) -> int:
        """Return how many bytes are still on their way to a peer."""
        return sum(len(frame) for _, frame in self.outbox.get(peer, ()))

    def record_of(self, peer: PeerId) -> PeerRecord | None:
        """Return the peer's record, learned or brought by the first message."""
        return self._records.get(peer)

    def tell(self, event: NodeEvent) -> None:
        """Put an event before our owner."""
        self._arrivals.put(event)

    def take(self, source: PeerId, frame: bytes) -> None:
        """Receive a frame."""
        self.traffic.down_bytes[PathKind.MEMORY] += len(frame)
        self.tell(Arrived(source, parse_message(frame), len(frame)))

    def deliver_later(self, peer: PeerId, frame: bytes, delay_s: float) -> None:
        """Queue a frame behind those that are still on their way to this peer."""
        queue = self.outbox.get(peer)
        due = trio.current_time() + delay_s
        if queue:
            queue.append((max(due, queue[-1][0]), frame))
            return
        self.outbox[peer] = deque([(due, frame)])
        self._nursery.start_soon(self._drain, peer)

    def close(self) -> None:
        """End the arrivals."""
        self._closed = True
        self._arrivals.close()

    async def _drain(self, peer: PeerId) -> None:
        while queue := self.outbox.get(peer):
            due, frame = queue[0]
            await trio.sleep_until(due)
            if self.outbox.get(peer) is queue:
                queue.popleft()
                self._network.deliver(self, peer, frame)
