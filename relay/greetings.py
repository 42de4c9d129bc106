"""The four frames of the handshake, byte for byte; who may do what is in `handshake`.

    20 CHALLENGE  relay->peer  8 B magic, u8 version, u8 flags, 32 B relay id,
                               32 B nonce, u64 time_ms                      (83 B)
    21 AUTH       peer->relay  32 B id, 16 B client nonce, u8 role, u32 caps, u16
                               length and token, 64 B signature          (<= 2 KiB)
    22 WELCOME    relay->peer  msgpack [16 B session, observed address, 26 B limits,
                               u32 relay map version, clock skew in us, descriptor,
                               resume ticket] and 64 B signature         (<= 4 KiB)
    23 DENY       relay->peer  u8 code, u32 retry_ms, utf-8 text          (<= 256 B)

The client nonce is the peer's wall clock (u64 ms) and 8 random bytes: that is how the
relay measures the skew it tells. The descriptor is the network's own signed text; the
relay neither reads nor makes it. Parsers raise only `ProtocolError`.
"""

import enum
import struct
from dataclasses import dataclass
from typing import Final, TypeVar

import msgpack

from relay.errors import ProtocolError, WeakKey
from relay.frame_types import FrameType, Limits
from relay.frames import cut_utf8, pack_limits, unpack_limits
from relay.keys import SIGNATURE_BYTES, PeerId, check_peer_id
from relay.tickets import MAX_TICKET_BYTES
from relay.tokens import MAX_TOKEN_BYTES

__all__ = [
    "MAX_AUTH_BYTES",
    "MAX_DESCRIPTOR_BYTES",
    "MAX_WELCOME_BYTES",
    "NONCE_BYTES",
    "SESSION_BYTES",
    "Auth",
    "Challenge",
    "Deny",
    "DenyCode",
    "Welcome",
    "encode_auth",
    "encode_challenge",
    "encode_deny",
    "encode_welcome",
    "parse_auth",
    "parse_challenge",
    "parse_deny",
    "parse_welcome",
]

NONCE_BYTES: Final = 32
SESSION_BYTES: Final = 16
MAX_AUTH_BYTES: Final = 2048
MAX_WELCOME_BYTES: Final = 4096
MAX_DESCRIPTOR_BYTES: Final = 1024
_MAX_DENY_TEXT_BYTES: Final = 250
_MAGIC: Final = b"P2PMOER1"
_VERSION: Final = 1

_T = TypeVar("_T")

_CHALLENGE = struct.Struct("!B8sBB32s32sQ")
_AUTH = struct.Struct("!B32s16sBIH")
_DENY = struct.Struct("!BBI")


class DenyCode(enum.IntEnum):
    """Why the relay says no."""

    BAD_KEY = 1
    BAD_SIGNATURE = 2
    WRONG_HOST = 3
    TOKEN_MISSING = 4
    TOKEN_MALFORMED = 5
    TOKEN_FOREIGN = 6
    TOKEN_FORGED = 7
    TOKEN_EXPIRED = 8
    TOKEN_NOT_YOURS = 9
    TOKEN_OTHER_RELAY = 10
    TOKEN_OTHER_ROLE = 11
    BUSY = 12
    DRAINING = 13
    TOKEN_REVOKED = 14
    PEER_REVOKED = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """The relay's first word: prove that you hold your key, to me, now."""

    relay_id: PeerId
    nonce: bytes
    time_ms: int
    flags: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Auth:
    """The peer's proof. `role` and `caps` are as claimed; `token` is opaque here."""

    peer_id: bytes
    client_nonce: bytes
    role: int
    caps: int
    token: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """The relay's yes.

    `skew_us`: the peer's wall clock minus the relay's, as the relay measured it.
    `observed_address`: `host:port` of the peer as the relay sees it; behind a front
    only what the front says. `ticket`: to be shown to this relay at the next joining
    (see `relay.tickets`); empty if there is none.
    """

    relay_id: PeerId
    session: bytes
    observed_address: str
    limits: Limits
    map_version: int
    skew_us: int
    descriptor: bytes
    signature: bytes
    ticket: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deny:
    """The relay's no; `code` may be one of a later version."""

    code: int
    retry_ms: int
    text: str


def encode_challenge(challenge: Challenge) -> bytes:
    """Return the 83 bytes of a CHALLENGE."""
    return _CHALLENGE.pack(
        FrameType.CHALLENGE,
        _MAGIC,
        _VERSION,
        challenge.flags,
        challenge.relay_id,
        challenge.nonce,
        challenge.time_ms,
    )


def parse_challenge(raw: bytes) -> Challenge:
    """Parse a CHALLENGE; the relay id is checked to be an acceptable key."""
    if len(raw) != _CHALLENGE.size or raw[0] != FrameType.CHALLENGE:
        raise ProtocolError(f"{len(raw)} bytes in place of a challenge")
    _, magic, version, flags, relay_id, nonce, time_ms = _CHALLENGE.unpack(raw)
    if magic != _MAGIC or version != _VERSION:
        raise ProtocolError(f"challenge of unknown version {version}")
    try:
        checked = check_peer_id(relay_id)
    except WeakKey as exc:
        raise ProtocolError(f"challenge: {exc}") from exc
    return Challenge(relay_id=checked, nonce=nonce, time_ms=time_ms, flags=flags)


def encode_auth(auth: Auth) -> bytes:
    """Return the bytes of an AUTH."""
    head = _AUTH.pack(
        FrameType.AUTH,
        auth.peer_id,
        auth.client_nonce,
        auth.role,
        auth.caps,
        len(auth.token),
    )
    return head + auth.token + auth.signature


def parse_auth(raw: bytes) -> Auth:
    """Parse an AUTH. The id is not judged here: a weak key gets a DENY, not silence."""
    if not _AUTH.size <= len(raw) <= MAX_AUTH_BYTES or raw[0] != FrameType.AUTH:
        raise ProtocolError(f"{len(raw)} bytes in place of an auth frame")
    _, peer_id, client_nonce, role, caps, n_token = _AUTH.unpack_from(raw)
    if n_token > MAX_TOKEN_BYTES:
        raise ProtocolError(f"auth frame with a token of {n_token} bytes")
    if len(raw) != _AUTH.size + n_token + SIGNATURE_BYTES:
        raise ProtocolError(f"auth frame of {len(raw)} bytes with {n_token} of token")
    return Auth(
        peer_id=peer_id,
        client_nonce=client_nonce,
        role=role,
        caps=caps,
        token=raw[_AUTH.size : -SIGNATURE_BYTES],
        signature=raw[-SIGNATURE_BYTES:],
    )


def encode_welcome(welcome: Welcome) -> bytes:
    """Return the bytes of a WELCOME."""
    body: bytes = msgpack.packb(
        [
            welcome.session,
            welcome.observed_address,
            pack_limits(welcome.limits),
            welcome.map_version,
            welcome.skew_us,
            welcome.descriptor,
            welcome.ticket,
        ]
    )
    return bytes([FrameType.WELCOME]) + body + welcome.signature


def _field(value: object, kind: type[_T], *, size: int | None = None) -> _T:
    if type(value) is not kind:
        raise ProtocolError(f"welcome: {type(value).__name__} where a value belongs")
    if size is not None and isinstance(value, bytes) and len(value) != size:
        raise ProtocolError(f"welcome: {len(value)} bytes where {size} belong")
    return value


def parse_welcome(raw: bytes, relay_id: PeerId) -> Welcome:
    """Parse the WELCOME of the relay whose CHALLENGE named `relay_id`."""
    shortest = 1 + SIGNATURE_BYTES
    if not shortest < len(raw) <= MAX_WELCOME_BYTES or raw[0] != FrameType.WELCOME:
        raise ProtocolError(f"{len(raw)} bytes in place of a welcome")
    try:
        values = msgpack.unpackb(
            raw[1:-SIGNATURE_BYTES],
            max_array_len=7,
            max_map_len=0,
            max_ext_len=0,
            max_str_len=256,
            max_bin_len=MAX_DESCRIPTOR_BYTES,
        )
    except (ValueError, msgpack.UnpackException) as exc:
        raise ProtocolError(f"welcome: {exc}") from exc
    if not isinstance(values, list) or len(values) != 7:
        raise ProtocolError("welcome: not an array of 7")
    ticket = _field(values[6], bytes)
    if len(ticket) > MAX_TICKET_BYTES:
        raise ProtocolError(f"welcome: a ticket of {len(ticket)} bytes")
    return Welcome(
        relay_id=relay_id,
        session=_field(values[0], bytes, size=SESSION_BYTES),
        observed_address=_field(values[1], str),
        limits=unpack_limits(_field(values[2], bytes)),
        map_version=_field(values[3], int),
        skew_us=_field(values[4], int),
        descriptor=_field(values[5], bytes),
        signature=raw[-SIGNATURE_BYTES:],
        ticket=ticket,
    )


def encode_deny(deny: Deny) -> bytes:
    """Return the bytes of a DENY, its text cut to fit."""
    text = cut_utf8(deny.text, _MAX_DENY_TEXT_BYTES)
    return _DENY.pack(FrameType.DENY, deny.code, deny.retry_ms) + text.encode()


def parse_deny(raw: bytes) -> Deny:
    """Parse a DENY."""
    longest = _DENY.size + _MAX_DENY_TEXT_BYTES
    if not _DENY.size <= len(raw) <= longest or raw[0] != FrameType.DENY:
        raise ProtocolError(f"{len(raw)} bytes in place of a deny frame")
    _, code, retry_ms = _DENY.unpack_from(raw)
    try:
        text = raw[_DENY.size :].decode()
    except UnicodeDecodeError as exc:
        raise ProtocolError("deny frame: text is not utf-8") from exc
    return Deny(code=code, retry_ms=retry_ms, text=text)
