"""The frames of `p2pmoe-relay.v1`, byte for byte. One frame per WebSocket message.

Big-endian, fixed layouts; the first byte is the type. An unknown type of 0x80 or above
is skipped (room for later), below it the connection is closed with 1002; a known type
with a wrong layout closes it with 1008. The four frames of the handshake (0x20 to 0x23)
are in `relay.handshake`.

    01/02 PING, PONG   8 B
    03 STATUS          u8 code, utf-8 text (whole frame <= 256 B)
    04 RESTARTING      u32 reconnect_in_ms, u32 try_for_ms
    05 LIMITS          u32 max_payload, bytes_s, burst, frames_s, queue_bytes;
                       u16 max_ttl_ms; u32 lease_s
    10 SEND            u8 flags, u16 ttl_ms, u32 flow, 32 B destination, payload
    11 RECV            u8 flags, u16 age_ms, u32 flow, 32 B source, payload
    12 NACK            u8 reason, u16 count, u32 flow, 32 B destination, u16 retry_ms
    13 GONE            32 B id, u8 reason
    14 WATCH           u16 n, n x id       (adds to those watched; n = 0 forgets all)
    15 PRESENCE        u16 n, n x (id, u8 state)    (n <= 256 in all three)
    96 SEEN_FROM       u16 n, n x (id, 7 B network prefix: see `relay.prefixes`)

    flags: bits 0-1 class (0 control, 1 interactive, 2 bulk), bit 2 NACK wanted.

A parser here raises only `ProtocolError`, whatever the bytes.
"""

import struct
from collections.abc import Callable
from dataclasses import fields
from typing import Final

from relay.errors import ProtocolError
from relay.frame_types import (
    Frame,
    FrameClass,
    FrameType,
    Gone,
    GoneReason,
    Limits,
    Nack,
    NackReason,
    Ping,
    Pong,
    Presence,
    PresenceState,
    Recv,
    Restarting,
    SeenFrom,
    Send,
    Status,
    StatusCode,
    Watch,
)
from relay.keys import PEER_ID_BYTES, PeerId
from relay.prefixes import PACKED_PREFIX_BYTES, pack_prefix, unpack_prefix

__all__ = [
    "CLASS_MASK",
    "DATA_HEADER",
    "MAX_IDS",
    "MAX_PAYLOAD_BYTES",
    "NACK_FLAG",
    "cut_utf8",
    "encode_frame",
    "pack_limits",
    "parse_frame",
    "unpack_limits",
]

MAX_PAYLOAD_BYTES: Final = 65_535
MAX_IDS: Final = 256
MAX_STATUS_TEXT_BYTES: Final = 254
CLASS_MASK: Final = 0b011
NACK_FLAG: Final = 0b100

# Shared by SEND and RECV: type, flags, ttl or age in ms, flow, destination or source.
DATA_HEADER: Final = struct.Struct("!BBHI32s")
_NACK = struct.Struct("!BBHI32sH")
_GONE = struct.Struct("!B32sB")
_RESTARTING = struct.Struct("!BII")
_LIMITS = struct.Struct("!IIIIIHI")
_COUNT = struct.Struct("!BH")


def pack_limits(limits: Limits) -> bytes:
    """Return the 26 bytes of LIMITS behind its type; WELCOME signs their hash."""
    return _LIMITS.pack(*(getattr(limits, field.name) for field in fields(limits)))


def unpack_limits(raw: bytes) -> Limits:
    """Parse what `pack_limits` made."""
    if len(raw) != _LIMITS.size:
        raise ProtocolError(f"limits of {len(raw)} bytes, not {_LIMITS.size}")
    names = (field.name for field in fields(Limits))
    return Limits(**dict(zip(names, _LIMITS.unpack(raw), strict=True)))


def _data_header(frame: Send | Recv) -> bytes:
    flags = frame.frame_class | (NACK_FLAG if frame.nack else 0)
    if isinstance(frame, Send):
        return DATA_HEADER.pack(
            FrameType.SEND, flags, frame.ttl_ms, frame.flow, frame.destination
        )
    return DATA_HEADER.pack(
        FrameType.RECV, flags, frame.age_ms, frame.flow, frame.source
    )


def encode_frame(frame: Frame) -> bytes:
    """Return the bytes of one frame, its type first."""
    match frame:
        case Send() | Recv():
            return _data_header(frame) + frame.payload
        case Watch() | Presence() | SeenFrom():
            return _encode_rows(frame)
        case Ping(nonce=nonce):
            return bytes([FrameType.PING]) + nonce
        case Pong(nonce=nonce):
            return bytes([FrameType.PONG]) + nonce
        case _:
            return _encode_notice(frame)


def _encode_rows(frame: Watch | Presence | SeenFrom) -> bytes:
    rows: list[bytes]
    if isinstance(frame, Watch):
        kind, rows = FrameType.WATCH, list(frame.peers)
    elif isinstance(frame, Presence):
        kind = FrameType.PRESENCE
        rows = [peer + bytes([state]) for peer, state in frame.states]
    else:
        kind = FrameType.SEEN_FROM
        rows = [peer + pack_prefix(prefix) for peer, prefix in frame.prefixes]
    return _COUNT.pack(kind, len(rows)) + b"".join(rows)


def _encode_notice(frame: Nack | Gone | Status | Restarting | Limits) -> bytes:
    match frame:
        case Nack(destination=peer, reason=reason, count=n, flow=flow, retry_ms=ms):
            return _NACK.pack(FrameType.NACK, reason, n, flow, peer, ms)
        case Gone(peer=peer, reason=why):
            return _GONE.pack(FrameType.GONE, peer, why)
        case Status(code=code, text=text):
            short = cut_utf8(text, MAX_STATUS_TEXT_BYTES)
            return bytes([FrameType.STATUS, code]) + short.encode()
        case Restarting(reconnect_in_ms=wait, try_for_ms=try_for):
            return _RESTARTING.pack(FrameType.RESTARTING, wait, try_for)
        case Limits():
            return bytes([FrameType.LIMITS]) + pack_limits(frame)


def cut_utf8(text: str, n_bytes: int) -> str:
    """Return the longest start of a text that fits `n_bytes` bytes of UTF-8."""
    return text.encode()[:n_bytes].decode(errors="ignore")


def _exactly(raw: bytes, size: int) -> None:
    if len(raw) != size:
        raise ProtocolError(f"frame {raw[0]:#04x} of {len(raw)} bytes, not {size}")


def _parse_data(raw: bytes) -> Send | Recv:
    if not DATA_HEADER.size <= len(raw) <= DATA_HEADER.size + MAX_PAYLOAD_BYTES:
        raise ProtocolError(f"frame {raw[0]:#04x} of {len(raw)} bytes")
    kind, flags, ms, flow, peer = DATA_HEADER.unpack_from(raw)
    if flags > (NACK_FLAG | CLASS_MASK) or flags & CLASS_MASK > FrameClass.BULK:
        raise ProtocolError(f"frame {raw[0]:#04x} with flags {flags:#04x}")
    frame_class, nack = FrameClass(flags & CLASS_MASK), bool(flags & NACK_FLAG)
    payload = raw[DATA_HEADER.size :]
    if kind == FrameType.SEND:
        return Send(
            destination=PeerId(peer),
            payload=payload,
            frame_class=frame_class,
            flow=flow,
            ttl_ms=ms,
            nack=nack,
        )
    return Recv(
        source=PeerId(peer),
        payload=payload,
        frame_class=frame_class,
        flow=flow,
        age_ms=ms,
        nack=nack,
    )


def _parse_ping(raw: bytes) -> Ping:
    _exactly(raw, 9)
    return Ping(nonce=raw[1:])


def _parse_pong(raw: bytes) -> Pong:
    _exactly(raw, 9)
    return Pong(nonce=raw[1:])


def _parse_status(raw: bytes) -> Status:
    if not 2 <= len(raw) <= 2 + MAX_STATUS_TEXT_BYTES:
        raise ProtocolError(f"status frame of {len(raw)} bytes")
    return Status(code=StatusCode(raw[1]), text=raw[2:].decode())


def _parse_restarting(raw: bytes) -> Restarting:
    _exactly(raw, _RESTARTING.size)
    _, reconnect_in_ms, try_for_ms = _RESTARTING.unpack(raw)
    return Restarting(reconnect_in_ms=reconnect_in_ms, try_for_ms=try_for_ms)


def _parse_limits(raw: bytes) -> Limits:
    return unpack_limits(raw[1:])


def _parse_nack(raw: bytes) -> Nack:
    _exactly(raw, _NACK.size)
    _, reason, count, flow, peer, retry_ms = _NACK.unpack(raw)
    return Nack(
        destination=PeerId(peer),
        reason=NackReason(reason),
        count=count,
        flow=flow,
        retry_ms=retry_ms,
    )


def _parse_gone(raw: bytes) -> Gone:
    _exactly(raw, _GONE.size)
    return Gone(peer=PeerId(raw[1:33]), reason=GoneReason(raw[33]))


def _rows(raw: bytes, size: int) -> list[bytes]:
    if len(raw) < _COUNT.size:
        raise ProtocolError(f"frame {raw[0]:#04x} of {len(raw)} bytes")
    n = _COUNT.unpack_from(raw)[1]
    if n > MAX_IDS:
        raise ProtocolError(f"frame {raw[0]:#04x} names {n} peers, above {MAX_IDS}")
    _exactly(raw, _COUNT.size + n * size)
    return [raw[at : at + size] for at in range(_COUNT.size, len(raw), size)]


def _parse_watch(raw: bytes) -> Watch:
    return Watch(peers=tuple(PeerId(row) for row in _rows(raw, PEER_ID_BYTES)))


def _parse_presence(raw: bytes) -> Presence:
    rows = _rows(raw, PEER_ID_BYTES + 1)
    return Presence(
        states=tuple((PeerId(row[:-1]), PresenceState(row[-1])) for row in rows)
    )


def _parse_seen_from(raw: bytes) -> SeenFrom:
    rows = _rows(raw, PEER_ID_BYTES + PACKED_PREFIX_BYTES)
    return SeenFrom(
        prefixes=tuple(
            (PeerId(row[:PEER_ID_BYTES]), unpack_prefix(row[PEER_ID_BYTES:]))
            for row in rows
        )
    )


_PARSERS: dict[int, Callable[[bytes], Frame]] = {
    FrameType.PING: _parse_ping,
    FrameType.PONG: _parse_pong,
    FrameType.STATUS: _parse_status,
    FrameType.RESTARTING: _parse_restarting,
    FrameType.LIMITS: _parse_limits,
    FrameType.SEND: _parse_data,
    FrameType.RECV: _parse_data,
    FrameType.NACK: _parse_nack,
    FrameType.GONE: _parse_gone,
    FrameType.WATCH: _parse_watch,
    FrameType.PRESENCE: _parse_presence,
    FrameType.SEEN_FROM: _parse_seen_from,
}


def parse_frame(raw: bytes) -> Frame | None:
    """Parse one message; None for an unknown type of 0x80 or above.

    Raises:
        ProtocolError: anything else that is not exactly one frame of the table.
    """
    if not raw:
        raise ProtocolError("empty message")
    parse = _PARSERS.get(raw[0])
    if parse is None:
        if raw[0] >= 0x80:
            return None
        raise ProtocolError(f"unknown frame type {raw[0]:#04x}", close_code=1002)
    try:
        return parse(raw)
    except ValueError as exc:
        raise ProtocolError(f"frame {raw[0]:#04x}: {exc}") from exc
