"""What a node keeps of one peer, and by which link its packets go.

A direct link counts once the peer answered a sealed probe by it (`proven`); then it is
preferred, and the relay stays warm behind it. When it ends, the next packet goes by
another proven link, else by the relay, at once. A link that is not proven carries
handshakes only where there is nothing better.
"""

from dataclasses import dataclass, field
from typing import Final

from mobile_worker.links.direct import DirectLink
from mobile_worker.links.events import PathKind
from mobile_worker.links.link import Link
from mobile_worker.links.relay import RelayLink
from mobile_worker.session.session import Session

__all__ = ["PeerState", "Windows", "choose_link", "windows_of"]

_MIN_RELAY_WINDOW: Final = 64 << 10
_DIRECT_WINDOW: Final = 8 << 20
_MAX_DIRECT_WINDOW: Final = 32 << 20


@dataclass(slots=True, kw_only=True, eq=False)
class PeerState:
    """One peer: its session, its direct links, what is known of its presence.

    present: what the relay said last; None if it said nothing. held_until: our relay
    connection is new, so the peer may be on its way back too: what is for it waits
    until it is seen, or until then. lost: our owner was told, and nothing authentic
    came since.
    """

    session: Session
    links: list[DirectLink] = field(default_factory=list)
    present: bool | None = None
    held_until: float | None = None
    lost: bool = False
    dialling: bool = False
    knocks: float = 0.0
    knocked_at: float = float("-inf")

    @property
    def needs_time(self) -> bool:
        """Whether something of it is due sooner or later."""
        held = self.held_until is not None
        return held or bool(self.links) or self.session.needs_time

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way with it."""
        return not self.dialling and not self.needs_time

    @property
    def direct(self) -> DirectLink | None:
        """The proven direct link, if there is one."""
        for link in self.links:
            if link.proven:
                return link
        return None


@dataclass(frozen=True, slots=True)
class Windows:
    """Bytes taken from one peer unconsumed: at first, and at most."""

    first: int
    most: int


def choose_link(peer: PeerState, relay: RelayLink | None) -> Link | None:
    """Return the link for the next packet to this peer; None if there is none."""
    for link in peer.links:
        if link.proven:
            return link
    up = relay is not None and relay.up and peer.held_until is None
    if peer.links and not (up and peer.present is not False):
        return peer.links[-1]
    return relay if up else None


def windows_of(kind: PathKind, relay_queue_bytes: int) -> Windows:
    """Return how much to take by such a path.

    By the relay no more than half of the queue that it keeps for us, so that honest
    peers never fill it; they begin with an eighth.
    """
    if kind is PathKind.DIRECT:
        return Windows(_DIRECT_WINDOW, _MAX_DIRECT_WINDOW)
    first = max(_MIN_RELAY_WINDOW, relay_queue_bytes // 8)
    return Windows(first, max(first, relay_queue_bytes // 2))
