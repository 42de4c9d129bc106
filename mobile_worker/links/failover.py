"""When a peer is spoken to over another of several relays, beside what probes find.

Probes (`mobile_worker.links.proving`) need keys and a peer that is spoken to. Two more
things change the relay: a peer that speaks to us over another one while the one in use
is silent, and a handshake that is not answered.
"""

from typing import TYPE_CHECKING, Final

from mobile_worker.links.link import Link
from mobile_worker.links.paths import PeerState, is_relay

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mobile_worker.links.relay import RelayLink

__all__ = ["FOLLOW_MESSAGE_S", "FOLLOW_S", "follow", "try_another"]

FOLLOW_S: Final = 3.0  # paths in use are probed more often than this
FOLLOW_MESSAGE_S: Final = 0.5


def follow(peer: PeerState, link: Link, now: float, *, is_message: bool) -> None:
    """Answer by the relay that the peer speaks over, if the one in use is silent.

    Probes come by all relays, messages by the one that the peer found good: it may have
    left the one in use because that swallows packets, and our answer would be lost.
    Both ends may do so at the same moment and cross; that costs nothing, since either
    relay works for them then.
    """
    chosen = peer.chosen
    if link is chosen or not is_relay(link):
        return
    peer.at(link).meter.alive_at = now
    if chosen is not None and is_relay(chosen):
        silent_s = now - peer.at(chosen).meter.alive_at
        if silent_s > (FOLLOW_MESSAGE_S if is_message else FOLLOW_S):
            peer.chosen = link


def try_another(peer: PeerState, relays: "Sequence[RelayLink]") -> None:
    """Send the next repetition of a handshake by the next relay that may have the peer.

    Without keys there are no probes: a relay that swallows our packets is found so.
    """
    if len(relays) < 2 or peer.session.n_offers < 2 or peer.direct is not None:
        return
    ways = [relay for relay in relays if relay.up and _may_have(peer, relay)]
    if ways:
        peer.chosen = ways[(peer.session.n_offers - 1) % len(ways)]


def _may_have(peer: PeerState, relay: "RelayLink") -> bool:
    path = peer.relays.get(relay)
    return path is None or (path.present is not False and path.held_until is None)
