"""Whom a node keeps, and who may say what: nobody's count of ids can fill a node.

Ids cost nothing: who reaches a listener may claim any, and a member of a network may
make many. So a peer that began by itself is a stranger until its keys are proven; of
strangers the newest 1,024 are kept. Of all peers the node keeps 65,536; above that the
one that proved its keys longest ago, and for which nothing is under way, is forgotten:
if it speaks again it begins a new handshake.
"""

from collections import OrderedDict
from collections.abc import Callable
from itertools import islice
from typing import Final

from mobile_worker.links.direct import DirectLink
from mobile_worker.links.link import Link
from mobile_worker.links.paths import PeerState
from mobile_worker.messages.envelope import MessageType
from mobile_worker.session.descriptor import NetworkDescriptor
from mobile_worker.session.handshake import OwnSide
from mobile_worker.session.packets import PacketKind
from mobile_worker.session.session import Session
from relay.keys import PeerId

__all__ = ["MAX_PEERS", "MAX_STRANGERS", "Door", "may_knock", "may_say"]

MAX_PEERS: Final = 65_536
MAX_STRANGERS: Final = 1024
_MAX_LOOKS = 256
_KNOCKS_BURST = 4.0
_KNOCKS_S = 1.0
# Messages that only the market sends; they may be large, and cost much to read.
_OF_MARKET = frozenset((MessageType.LEASE, MessageType.PLACEMENT))


class Door:
    """All peers of a node. `watch` is called with each that is no stranger."""

    def __init__(
        self,
        own: OwnSide,
        watch: Callable[[PeerId], None],
        *,
        max_peers: int = MAX_PEERS,
        max_strangers: int = MAX_STRANGERS,
    ) -> None:
        self.peers: dict[PeerId, PeerState] = {}  # the last that proved itself is last
        self._own = own
        self._watch = watch
        self._max_peers = max_peers
        self._max_strangers = max_strangers
        self._strangers: OrderedDict[PeerId, None] = OrderedDict()

    def is_stranger(self, peer: PeerId) -> bool:
        """Tell whether a peer began by itself and has proven nothing yet."""
        return peer in self._strangers

    def known(self, peer: PeerId) -> PeerState:
        """Return what is kept of a peer that our owner speaks of."""
        state = self.peers.get(peer)
        if state is None:
            state = self._enter(peer)
            self._watch(peer)
        self._met(peer)
        return state

    def stranger(self, peer: PeerId) -> PeerState:
        """Return what is kept of a peer that comes by itself."""
        state = self.peers.get(peer)
        if state is None:
            while len(self._strangers) >= self._max_strangers:
                self.forget(next(iter(self._strangers)))
            state = self._enter(peer)
            self._strangers[peer] = None
        return state

    def proved(self, peer: PeerId) -> None:
        """Note that a peer has proven its keys just now."""
        state = self.peers.pop(peer, None)
        if state is not None:
            self.peers[peer] = state
            self._met(peer)

    def forget(self, peer: PeerId) -> None:
        """Drop session, links and queue of a peer."""
        self._strangers.pop(peer, None)
        state = self.peers.pop(peer, None)
        if state is not None:
            state.session.close()
            for link in state.links:
                link.abort("forgotten")

    def _met(self, peer: PeerId) -> None:
        if peer in self._strangers:
            del self._strangers[peer]
            self._watch(peer)

    def _enter(self, peer: PeerId) -> PeerState:
        if len(self.peers) >= self._max_peers:
            looks = islice(self.peers.items(), _MAX_LOOKS)
            idle = next((old for old, state in looks if state.is_idle), None)
            if idle is not None:
                self.forget(idle)
        state = self.peers[peer] = PeerState(session=Session(self._own, peer))
        return state


def may_knock(link: Link, state: PeerState, packet: bytes, now: float) -> bool:
    """Tell whether a packet may be looked at.

    The id behind a direct link that is not proven is a mere claim; handshakes by such
    links must not use up what the peer of that id may ask of us.
    """
    if not isinstance(link, DirectLink) or link.proven:
        return True
    if packet[:1] > _LAST_HANDSHAKE:
        return True
    earned = (now - state.knocked_at) * _KNOCKS_S
    state.knocks = min(_KNOCKS_BURST, state.knocks + earned) - 1.0
    state.knocked_at = now
    if state.knocks >= 0.0:
        return True
    state.knocks = 0.0
    return False


def may_say(peer: PeerId, message: bytes, descriptor: NetworkDescriptor | None) -> bool:
    """Tell whether a message of this type is read at all from this peer."""
    if descriptor is None or descriptor.market in (None, peer):
        return True
    return not message or message[0] not in _OF_MARKET


_LAST_HANDSHAKE = bytes((PacketKind.XX_3,))
