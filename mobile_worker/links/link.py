"""What every link is to the node that owns it: a way for packets, in order, both ways.

A link carries sealed packets and knows nothing of what is in them. Everything here is a
plain call on the trio thread, so that a packet crosses no task on its way between the
socket and the session. A link never waits for the node and never calls it while `send`
runs, so `send` may be called from within its own callbacks.
"""

from collections.abc import Sequence
from typing import Protocol

from mobile_worker.links.events import PathKind
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import Packet
from relay.keys import PeerId

__all__ = ["Link", "LinkOwner"]


class Link(Protocol):
    """A way to one peer (direct) or to many (relay)."""

    @property
    def kind(self) -> PathKind:
        """Which kind of way it is."""
        ...

    @property
    def open_to(self) -> MessageClass | None:
        """The least urgent class that `send` should be called with now.

        None: no class at all. `link_writable` follows when there is room for more.
        """
        ...

    @property
    def crowded(self) -> bool:
        """Whether even answers, which do not wait for room, are to be dropped."""
        ...

    def send(self, peer: PeerId, packet: Packet) -> None:
        """Send or queue a packet; one that the link cannot take any more is lost."""
        ...


class LinkOwner(Protocol):
    """Who gets what links bring."""

    def packet_arrived(self, link: Link, peer: PeerId, packet: bytes) -> None:
        """Take a packet; `peer` is what the relay or the other end claims."""
        ...

    def link_writable(self, link: Link) -> None:
        """Go on sending by this link."""
        ...

    def link_lost(self, link: Link, unsent: Sequence[Packet], reason: str) -> None:
        """Note that a direct link ended; `unsent` may be sent another way."""
        ...
