"""The bytes of packets (what links carry) and of frames (what is sealed in them).

Packets, big-endian:

    01 IK_1, 02 IK_2, 03 XX_1, 04 XX_2, 05 XX_3
                 u32 sender's index, u32 receiver's index (0 in the first), 8 B instance
                 of the sender, Noise message
    10 SEALED    u32 receiver's index, u64 counter, ciphertext of one frame and its tag;
                 these 13 bytes are authenticated too
    11 UNKNOWN   u32 index: "I know no session with this index"; not authenticated

Frames:

    00 WHOLE     u8 class, u64 stream offset, message
    01 PIECE     u8 class, u64 stream offset, u32 message number, u32 total, u32 offset
                 in the message, bytes
    02 CREDIT    u8 class, u64 stream offset up to which may be sent
    03 BLOCKED   u8 class, u64 stream offset reached, with more waiting
    04 OPEN      the first on a new session: nothing
    05 PROBE     u64 token
    06 PROBED    u64 token: the answer, by the same link
    07 GOODBYE   the process ends in good order

A stream offset counts the message bytes of one class in one session before this frame.
`instance` is drawn when a process starts; another one means that the peer restarted.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple

from mobile_worker.errors import HandshakeError, ProtocolBreach, SealError
from mobile_worker.messages.classes import MessageClass

__all__ = [
    "INSTANCE_BYTES",
    "MAX_BULK_PIECE_BYTES",
    "MAX_PACKET_BYTES",
    "MAX_PIECE_BYTES",
    "PIECE_HEAD",
    "SEALED_HEAD",
    "STREAM_HEAD",
    "TOKEN",
    "FrameKind",
    "HandshakePacket",
    "Packet",
    "PacketKind",
    "carries_message",
    "class_at",
    "own_packet",
    "parse_handshake",
    "parse_stream",
    "parse_unknown",
    "unknown_packet",
]

INSTANCE_BYTES: Final = 8
MAX_PIECE_BYTES: Final = 59_000
MAX_BULK_PIECE_BYTES: Final = 16_000
MAX_PACKET_BYTES: Final = 61_440
SEALED_HEAD: Final = struct.Struct(">BIQ")
STREAM_HEAD: Final = struct.Struct(">BBQ")
PIECE_HEAD: Final = struct.Struct(">BBQIII")
TOKEN: Final = struct.Struct(">BQ")
_CLASSES = tuple(MessageClass)
_HANDSHAKE_HEAD = struct.Struct(">BII8s")
_UNKNOWN = struct.Struct(">BI")
_TAG_BYTES = 16
_LONGEST_OTHER = SEALED_HEAD.size + STREAM_HEAD.size + _TAG_BYTES


class PacketKind(IntEnum):
    """First byte of a packet."""

    IK_1 = 1
    IK_2 = 2
    XX_1 = 3
    XX_2 = 4
    XX_3 = 5
    SEALED = 16
    UNKNOWN = 17


class FrameKind(IntEnum):
    """First byte of a frame."""

    WHOLE = 0
    PIECE = 1
    CREDIT = 2
    BLOCKED = 3
    OPEN = 4
    PROBE = 5
    PROBED = 6
    GOODBYE = 7


class Packet(NamedTuple):
    """What a link is to carry, and in which of its queues."""

    message_class: MessageClass
    payload: bytes


class HandshakePacket(NamedTuple):
    """A handshake packet taken apart."""

    kind: PacketKind
    sender: int
    receiver: int
    instance: bytes
    noise: bytes

    def encode(self) -> bytes:
        """Return its bytes."""
        head = (self.kind, self.sender, self.receiver, self.instance)
        return _HANDSHAKE_HEAD.pack(*head) + self.noise


def parse_handshake(packet: bytes) -> HandshakePacket:
    """Take a handshake packet apart, or raise HandshakeError."""
    if not _HANDSHAKE_HEAD.size < len(packet) <= MAX_PACKET_BYTES:
        raise HandshakeError(f"a handshake packet of {len(packet)} bytes")
    kind, sender, receiver, instance = _HANDSHAKE_HEAD.unpack_from(packet)
    if not PacketKind.IK_1 <= kind <= PacketKind.XX_3:
        raise HandshakeError(f"unknown packet kind {kind}")
    noise = packet[_HANDSHAKE_HEAD.size :]
    return HandshakePacket(PacketKind(kind), sender, receiver, instance, noise)


def parse_stream(frame: bytes) -> tuple[MessageClass, int]:
    """Return class and offset of a CREDIT or BLOCKED frame, or raise ProtocolBreach."""
    if len(frame) != STREAM_HEAD.size:
        raise ProtocolBreach(f"a grant of {len(frame)} bytes")
    _, message_class, offset = STREAM_HEAD.unpack(frame)
    return class_at(message_class), offset


def class_at(number: int) -> MessageClass:
    """Return the class with this number, or raise ProtocolBreach."""
    if number >= len(_CLASSES):
        raise ProtocolBreach(f"unknown class {number}")
    return _CLASSES[number]


def carries_message(packet: bytes) -> bool:
    """Tell whether a sealed packet that opened has a message or a piece of one.

    Nothing else that is sealed is as long.
    """
    return len(packet) > _LONGEST_OTHER and packet[0] == PacketKind.SEALED


def own_packet(payload: bytes) -> Packet:
    """Return a packet of the session's own with its class.

    Handshakes go first; probes wait where the data waits, a farewell behind it.
    """
    is_sealed = payload[0] == PacketKind.SEALED
    in_class = MessageClass.INTERACTIVE if is_sealed else MessageClass.CONTROL
    return Packet(in_class, payload)


def unknown_packet(index: int) -> bytes:
    """Return the hint that no session with this index is known here."""
    return _UNKNOWN.pack(PacketKind.UNKNOWN, index)


def parse_unknown(packet: bytes) -> int:
    """Return the index of such a hint, or raise SealError."""
    if len(packet) != _UNKNOWN.size:
        raise SealError(f"a hint of {len(packet)} bytes")
    return int(_UNKNOWN.unpack(packet)[1])
