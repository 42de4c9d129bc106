"""The node that stands in a real network: sessions over the relay and direct links.

This is the surface of `Node` over the switchboard, which does the work; `open_node`
makes it and runs its tasks.
"""

from collections.abc import AsyncIterator

from mobile_worker.errors import NodeClosed
from mobile_worker.links.events import NodeEvent, PathKind
from mobile_worker.links.node import Traffic
from mobile_worker.links.paths import choose_link
from mobile_worker.links.presence import Presence
from mobile_worker.links.switchboard import Switchboard
from mobile_worker.messages.classes import MessageClass, class_of
from mobile_worker.messages.codec import Message, encode_message
from mobile_worker.session.descriptor import NetworkDescriptor
from mobile_worker.session.records import PeerRecord
from relay.keys import PeerId

__all__ = ["LinkedNode"]


class LinkedNode:
    """A `Node` with real links."""

    def __init__(self, presence: Presence, switchboard: Switchboard) -> None:
        self._presence = presence
        self._switchboard = switchboard
        self._peers = switchboard.peers
        self._closed = False

    @property
    def peer_id(self) -> PeerId:
        """Our own id."""
        return self._presence.own.identity.peer_id

    @property
    def traffic(self) -> Traffic:
        """Counters of this node."""
        return self._switchboard.traffic

    @property
    def relay_heard_s(self) -> float | None:
        """Seconds since a relay was heard of last; None: there is no connection."""
        heard = (relay.heard_s for relay in self._switchboard.relays)
        return min((s for s in heard if s is not None), default=None)

    @property
    def record(self) -> PeerRecord:
        """Our own signed record as it is now."""
        return self._presence.record

    @property
    def descriptor(self) -> NetworkDescriptor | None:
        """The network's signed description, if it has one."""
        return self._presence.descriptor

    def send(
        self,
        peer: PeerId,
        message: Message,
        *,
        message_class: MessageClass | None = None,
    ) -> None:
        """Send, or queue while there is no session or no credit; never blocks.

        Raises:
            SendQueueFull: too much waits for this peer already.
            UnsendableMessage: the message cannot be encoded.
            NodeClosed: the node is gone.
        """
        if self._closed:
            raise NodeClosed("the node is closed")
        frame = encode_message(message)
        if message_class is None:
            message_class = class_of(message.TYPE)
        state = self._switchboard.state_of(peer)
        state.session.add(frame, message_class)
        self._switchboard.pump(peer, state)

    def arrivals(self) -> AsyncIterator[NodeEvent]:
        """Iterate over events; for one consumer. Ends when the node closes."""
        return self._switchboard.arrivals

    def learn(self, record: PeerRecord) -> None:
        """Take note of a peer's verified record, unless a newer one is known."""
        if record.peer_id == self.peer_id:
            return
        session = self._switchboard.state_of(record.peer_id).session
        if session.record is None or session.record.sequence < record.sequence:
            session.record = record

    def forget(self, peer: PeerId) -> None:
        """Drop session, links, queue and record of a peer."""
        self._switchboard.forget(peer)

    def path(self, peer: PeerId) -> PathKind | None:
        """Tell how the peer is reached now; None while there is no session."""
        state = self._peers.get(peer)
        if state is None or not state.session.established:
            return None
        link = choose_link(state, self._switchboard.relays)
        return None if link is None else link.kind

    def waiting_bytes(self, peer: PeerId) -> int:
        """Return how many bytes of messages wait to be sent to a peer."""
        state = self._peers.get(peer)
        return 0 if state is None else state.session.queued_bytes

    def record_of(self, peer: PeerId) -> PeerRecord | None:
        """Return what the peer last signed about itself, if known."""
        state = self._peers.get(peer)
        return None if state is None else state.session.record

    def close(self) -> None:
        """Say farewell to all and end the arrivals."""
        self._closed = True
        self._switchboard.close()
