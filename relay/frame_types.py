"""What the frames of `p2pmoe-relay.v1` carry; `relay.frames` has their bytes."""

import enum
from dataclasses import dataclass

from relay.keys import PeerId

__all__ = [
    "Frame",
    "FrameClass",
    "FrameType",
    "Gone",
    "GoneReason",
    "Limits",
    "Nack",
    "NackReason",
    "Ping",
    "Pong",
    "Presence",
    "PresenceState",
    "Recv",
    "Restarting",
    "SeenFrom",
    "Send",
    "Status",
    "StatusCode",
    "Watch",
]


class FrameType(enum.IntEnum):
    """First byte of a frame."""

    PING = 0x01
    PONG = 0x02
    STATUS = 0x03
    RESTARTING = 0x04
    LIMITS = 0x05
    SEND = 0x10
    RECV = 0x11
    NACK = 0x12
    GONE = 0x13
    WATCH = 0x14
    PRESENCE = 0x15
    CHALLENGE = 0x20
    AUTH = 0x21
    WELCOME = 0x22
    DENY = 0x23
    SEEN_FROM = 0x96  # above 0x80: a market that does not know it reads on


class FrameClass(enum.IntEnum):
    """Which of a destination's three queues a frame waits in."""

    CONTROL = 0
    INTERACTIVE = 1
    BULK = 2


class StatusCode(enum.IntEnum):
    """What the relay tells a peer about its own connection."""

    OK = 0
    DUPLICATE_ID = 1
    RATE_LIMITED = 2
    SLOW = 3
    DRAINING = 4
    LEASE_ENDING = 5
    NEW_MAP = 6


class NackReason(enum.IntEnum):
    """Why a frame was not delivered."""

    NOT_HERE = 1
    GONE = 2
    QUEUE_FULL = 3
    EXPIRED = 4
    TOO_LARGE = 5
    NOT_ALLOWED = 6
    RATE = 7


class GoneReason(enum.IntEnum):
    """Why a peer is no longer at the relay."""

    DISCONNECTED = 1
    SILENT = 2
    SLOW = 3
    REFUSED = 4


class PresenceState(enum.IntEnum):
    """State of a watched peer."""

    ABSENT = 0
    HERE = 1
    SLOW = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Ping:
    """Asks for a PONG with the same 8 bytes."""

    nonce: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Pong:
    """Answers a PING."""

    nonce: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """Tells the peer something about its own connection."""

    code: StatusCode
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Restarting:
    """The relay goes away: come back in so many ms, try for so many ms."""

    reconnect_in_ms: int
    try_for_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What this peer may do. Bytes, bytes per second, frames per second, ms, s."""

    max_payload: int
    bytes_s: int
    burst: int
    frames_s: int
    queue_bytes: int
    max_ttl_ms: int
    lease_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """A frame on its way to `destination`."""

    destination: PeerId
    payload: bytes
    frame_class: FrameClass
    flow: int
    ttl_ms: int
    nack: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Recv:
    """A frame from `source`; it lay `age_ms` at the relay."""

    source: PeerId
    payload: bytes
    frame_class: FrameClass
    flow: int
    age_ms: int
    nack: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Nack:
    """`count` frames of `flow` to `destination` were dropped."""

    destination: PeerId
    reason: NackReason
    count: int
    flow: int
    retry_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Gone:
    """A watched or recently spoken-to peer left the relay."""

    peer: PeerId
    reason: GoneReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Tell me when these come and go (at most 256 a frame); none: forget all."""

    peers: tuple[PeerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Presence:
    """States of watched peers."""

    states: tuple[tuple[PeerId, PresenceState], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenFrom:
    """Network prefixes of watched peers that are here; "" for one that has none."""

    prefixes: tuple[tuple[PeerId, str], ...]


Frame = (
    Ping
    | Pong
    | Status
    | Restarting
    | Limits
    | Send
    | Recv
    | Nack
    | Gone
    | Watch
    | Presence
    | SeenFrom
)
