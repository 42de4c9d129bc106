"""How a direct link shows that the right peer is at its other end, and stays alive.

A sealed probe goes out by the link and its answer must come back by the same link: then
both directions work and the peer's keys are at the other end. The same probe asks a
link that has been quiet; one that does not answer in time is closed.
"""

from typing import Final

from mobile_worker.links.direct import DirectLink
from mobile_worker.messages.classes import MessageClass
from mobile_worker.session.packets import Packet
from mobile_worker.session.session import Session

__all__ = ["probe_answered", "prove", "watch_link"]

QUIET_S: Final = 5.0  # after this a direct link is probed
DEAD_S: Final = 15.0  # after this it is closed
UNPROVEN_S: Final = 10.0  # so long it may take to be proven


def prove(link: DirectLink, session: Session, token: int, now: float) -> None:
    """Send a probe by the link, if there are keys."""
    probe = session.probe(token)
    if probe is not None:
        link.token = token
        link.probed_at = now
        link.send(link.peer, Packet(MessageClass.CONTROL, probe))


def probe_answered(link: DirectLink, token: int, now: float) -> bool:
    """Take an answer that came by this link; tell whether it is proven by that."""
    if token != link.token:
        return False
    link.round_trip_s = now - link.probed_at
    first, link.proven = not link.proven, True
    return first


def watch_link(link: DirectLink, session: Session, token: int, now: float) -> None:
    """Probe the link if it is quiet or not proven; close it if that goes on."""
    quiet_s = now - link.heard_at
    if quiet_s > DEAD_S or (not link.proven and now - link.opened_at > UNPROVEN_S):
        link.abort("the peer is silent")
    elif (quiet_s > QUIET_S or not link.proven) and now - link.probed_at > QUIET_S / 2:
        prove(link, session, token, now)
