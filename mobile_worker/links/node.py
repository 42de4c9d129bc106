"""A node: one peer's presence in the network, as its roles see it.

Roles (backbone, worker, market, ledger) send messages and read events here; how a peer
is reached, sealed, retried and flow-controlled is none of their business. Delivery is
at most once and in order per peer and class while the path stays the same; whoever
needs an answer asks again. `send` works for peers that are not connected yet: messages
wait, bounded, while the handshake runs.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Protocol

from mobile_worker.links.events import NodeEvent, PathKind
from mobile_worker.messages.classes import MessageClass
from mobile_worker.messages.codec import Message
from mobile_worker.session.descriptor import NetworkDescriptor
from mobile_worker.session.identity import Identity
from mobile_worker.session.records import PeerRecord
from relay.endpoint import Endpoint
from relay.keys import PeerId
from relay.tokens import Role

__all__ = ["Node", "NodeSettings", "Traffic"]

ZERO_DIGEST = bytes(32)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a node needs to know at start.

    endpoints: relays, the first that answers is used; none for direct links alone.
    token: the network token for the relay, empty for an open relay.
    listen: `host:port` to take direct links on, port 0 for any; None for none.
    advertise: `host:port` to put in our record in place of where we listen.
    lan: announce us on the local network, take links there, dial who is found there.
    network: network id; None takes it from the relay's descriptor (zeros without one).
    """

    identity: Identity
    role: Role
    endpoints: tuple[Endpoint, ...] = ()
    token: bytes = b""
    listen: str | None = None
    advertise: tuple[str, ...] = ()
    lan: bool = False
    capabilities: int = 0
    self_test: bytes = ZERO_DIGEST
    network: bytes | None = None


@dataclass(slots=True)
class Traffic:
    """Bytes of packets sent (up) and received (down) by path since the start."""

    up_bytes: dict[PathKind, int] = field(
        default_factory=lambda: dict.fromkeys(PathKind, 0)
    )
    down_bytes: dict[PathKind, int] = field(
        default_factory=lambda: dict.fromkeys(PathKind, 0)
    )
    n_refused: int = 0  # packets that did not open, messages that did not parse


class Node(Protocol):
    """One peer's presence in the network. All methods are for the trio thread."""

    @property
    def peer_id(self) -> PeerId:
        """Our own id."""
        ...

    @property
    def record(self) -> PeerRecord:
        """Our own signed record as it is now; `record.encoded` has the bytes."""
        ...

    @property
    def descriptor(self) -> NetworkDescriptor | None:
        """The network's signed description, from the relay; None if it has none."""
        ...

    @property
    def traffic(self) -> Traffic:
        """Counters of this node."""
        ...

    @property
    def relay_heard_s(self) -> float | None:
        """Seconds since a relay was heard of last; None: there is no connection."""
        ...

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
        ...

    def arrivals(self) -> AsyncIterator[NodeEvent]:
        """Iterate over events; for one consumer. Ends when the node closes."""
        ...

    def learn(self, record: PeerRecord) -> None:
        """Take note of a peer's verified record, unless a newer one is known.

        From now on its sessions need one round trip less and direct links are tried.
        """
        ...

    def forget(self, peer: PeerId) -> None:
        """Drop session, links, queue and record of a peer."""
        ...

    def path(self, peer: PeerId) -> PathKind | None:
        """Tell how the peer is reached now; None while there is no session."""
        ...

    def waiting_bytes(self, peer: PeerId) -> int:
        """Return how many bytes of messages wait to be sent to a peer."""
        ...

    def record_of(self, peer: PeerId) -> PeerRecord | None:
        """Return what the peer last signed about itself, if known."""
        ...
