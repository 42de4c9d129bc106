"""What a node tells its owner, in the order in which it happened."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from mobile_worker.messages.codec import Message
from relay.keys import PeerId

__all__ = [
    "Arrived",
    "LostReason",
    "NodeEvent",
    "PathKind",
    "PeerBack",
    "PeerLost",
    "PeerSeenFrom",
    "RelayChanged",
    "Undelivered",
    "UndeliveredReason",
]


class PathKind(StrEnum):
    """How a peer is reached at present."""

    RELAY = "relay"
    DIRECT = "direct"
    MEMORY = "memory"


class LostReason(StrEnum):
    """Why a peer counts as lost. What it was asked for will not be answered."""

    GONE = "gone"  # it left the relay and has no other path
    RESTARTED = "restarted"  # it is there again, as a new process that knows nothing
    UNREACHABLE = "unreachable"  # no answer to our handshakes
    LINK = "link"  # its direct link ended and there is no relay to fall back to
    FORBIDDEN = "forbidden"  # it sent what breaks the protocol


class UndeliveredReason(StrEnum):
    """Why messages did not reach a peer; they are not sent again."""

    NOT_HERE = "not here"
    QUEUE_FULL = "queue full"
    EXPIRED = "expired"
    REFUSED = "refused"
    LOST = "lost"  # the peer was lost while they waited


@dataclass(frozen=True, slots=True)
class Arrived:
    """A message from an authenticated peer, whole and checked; `n_bytes` encoded."""

    peer: PeerId
    message: Message
    n_bytes: int


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The peer, or the process that it was, is gone. Losing our relay is not this."""

    peer: PeerId
    reason: LostReason


@dataclass(frozen=True, slots=True)
class PeerBack:
    """The relay says that a lost peer is there again: a good moment to try."""

    peer: PeerId


@dataclass(frozen=True, slots=True)
class PeerSeenFrom:
    """A relay's word on a peer's network prefix, "" for none: to a market alone."""

    peer: PeerId
    prefix: str


@dataclass(frozen=True, slots=True)
class Undelivered:
    """`count` messages, or pieces of messages, to this peer were dropped."""

    peer: PeerId
    reason: UndeliveredReason
    count: int = 1


@dataclass(frozen=True, slots=True)
class RelayChanged:
    """Our connection to the relay came up or went down."""

    up: bool
    detail: str


NodeEvent: TypeAlias = (
    Arrived | PeerLost | PeerBack | PeerSeenFrom | Undelivered | RelayChanged
)
