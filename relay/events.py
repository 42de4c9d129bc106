"""What a relay connection tells its owner, in the order in which it came."""

from dataclasses import dataclass

from relay.frame_types import (
    FrameClass,
    GoneReason,
    Limits,
    NackReason,
    PresenceState,
    StatusCode,
)
from relay.keys import PeerId

__all__ = [
    "Event",
    "Nacked",
    "PeerGone",
    "PeerPresence",
    "PeersSeenFrom",
    "Received",
    "RelayLimits",
    "RelayRestarting",
    "RelayStatus",
]


@dataclass(frozen=True, slots=True)
class Received:
    """A frame from another peer; it lay `age_ms` at the relay."""

    source: PeerId
    payload: bytes
    frame_class: FrameClass
    flow: int
    age_ms: int


@dataclass(frozen=True, slots=True)
class Nacked:
    """`count` of our frames of `flow` were not delivered; try again in `retry_ms`.

    Reason EXPIRED also comes from our own send queue, when a frame outlived its time
    before it could leave.
    """

    destination: PeerId
    reason: NackReason
    count: int
    flow: int
    retry_ms: int


@dataclass(frozen=True, slots=True)
class PeerGone:
    """A peer that we watch or lately exchanged frames with left the relay."""

    peer: PeerId
    reason: GoneReason


@dataclass(frozen=True, slots=True)
class PeerPresence:
    """State of watched peers: the answer to a watch, and each later arrival."""

    states: tuple[tuple[PeerId, PresenceState], ...]


@dataclass(frozen=True, slots=True)
class PeersSeenFrom:
    """Network prefixes of watched peers that are here: told to a market alone."""

    prefixes: tuple[tuple[PeerId, str], ...]


@dataclass(frozen=True, slots=True)
class RelayStatus:
    """The relay tells about our own connection."""

    code: StatusCode
    text: str


@dataclass(frozen=True, slots=True)
class RelayLimits:
    """What we may do from now on, in place of what the welcome said."""

    limits: Limits


@dataclass(frozen=True, slots=True)
class RelayRestarting:
    """The relay goes away; reconnect in `reconnect_in_ms`, try for `try_for_ms`."""

    reconnect_in_ms: int
    try_for_ms: int


Event = (
    Received
    | Nacked
    | PeerGone
    | PeerPresence
    | PeersSeenFrom
    | RelayStatus
    | RelayLimits
    | RelayRestarting
)
