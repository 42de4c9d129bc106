"""Network tokens: the network's signed word that a peer may use its relays.

    token = msgpack [version, network, id, relay, not_after_us, role, rate_class,
                     serial] || 64 B signature by the network key over DOMAIN || msgpack

`id` and `relay` are 32 bytes, or empty for "any"; `not_after_us` is wall time in
microseconds, 0 for "never"; role 0 is "any role". `serial` tells tokens of equal terms
apart, so that one can be revoked alone; version 1 ends before it and has none. A relay
that is not open admits only peers whose token passes `check_token`; the reasons to
refuse are a closed set, each with a sentence for the person at the other end.
"""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import msgpack

from relay.errors import ProtocolError, WeakKey
from relay.keys import PEER_ID_BYTES, SIGNATURE_BYTES, PeerId, check_peer_id, verify

__all__ = [
    "MAX_TOKEN_BYTES",
    "NetworkToken",
    "RateClass",
    "Role",
    "TokenFault",
    "Visit",
    "check_token",
    "encode_token",
    "parse_token",
]

MAX_TOKEN_BYTES: Final = 512
_DOMAIN: Final = b"p2pmoe network token v1\0"
_PLAIN, _NUMBERED = 1, 2  # versions: without and with a serial


class Role(enum.IntEnum):
    """What a peer is in the network. ANY stands in tokens only."""

    ANY = 0
    WORKER = 1
    HUB = 2
    BACKBONE = 3
    MARKET = 4
    LEDGER = 5
    CLIENT = 6


class RateClass(enum.IntEnum):
    """How much a peer may send: see `relay.limits`."""

    PHONE = 0
    LAPTOP = 1
    HUB = 2


class TokenFault(enum.Enum):
    """Why a token does not admit its bearer."""

    MISSING = "no network token was given"
    MALFORMED = "the network token cannot be read"
    FOREIGN = "the network token is of another network"
    FORGED = "the network token's signature is wrong"
    EXPIRED = "the network token has expired"
    NOT_YOURS = "the network token was given to another peer"
    OTHER_RELAY = "the network token is for another relay"
    OTHER_ROLE = "the network token is for another role"
    REVOKED = "the network token was revoked"
    PEER_REVOKED = "the network has shut this peer out"


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkToken:
    """What the network says of a peer. `peer_id` and `relay_id` None: any.

    `serial`: below 2^64; 0 for none.
    """

    network: PeerId
    peer_id: PeerId | None = None
    relay_id: PeerId | None = None
    not_after_us: int = 0
    role: Role = Role.ANY
    rate_class: RateClass = RateClass.LAPTOP
    serial: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Who shows a token, where and when (`now_us`: the relay's wall clock)."""

    peer_id: PeerId
    relay_id: PeerId
    role: Role
    now_us: int


def encode_token(token: NetworkToken, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the token's bytes, signed by the network key's `sign`."""
    fields = [
        _NUMBERED if token.serial else _PLAIN,
        token.network,
        token.peer_id or b"",
        token.relay_id or b"",
        token.not_after_us,
        int(token.role),
        int(token.rate_class),
        *([token.serial] if token.serial else []),
    ]
    body: bytes = msgpack.packb(fields)
    return body + sign(_DOMAIN + body)


def _id_or_any(raw: object) -> PeerId | None:
    if not isinstance(raw, bytes):
        raise ProtocolError("network token: an id is not bytes")
    return check_peer_id(raw) if raw else None


def _number(raw: object, limit: int) -> int:
    if type(raw) is not int or not 0 <= raw < limit:
        raise ProtocolError(f"network token: number {raw!r} out of range")
    return raw


def _is_known(values: list[object]) -> bool:
    if len(values) == 8:  # a serial of 0 is written as version 1
        return values[0] == _NUMBERED and values[7] != 0
    return len(values) == 7 and values[0] == _PLAIN


def parse_token(raw: bytes) -> NetworkToken:
    """Parse a token without checking its signature.

    Raises:
        ProtocolError: not the layout above, or values out of range.
    """
    if not SIGNATURE_BYTES < len(raw) <= MAX_TOKEN_BYTES:
        raise ProtocolError(f"network token of {len(raw)} bytes")
    body = raw[:-SIGNATURE_BYTES]
    try:
        values = msgpack.unpackb(
            body,
            max_array_len=8,
            max_map_len=0,
            max_bin_len=PEER_ID_BYTES,
            max_str_len=0,
            max_ext_len=0,
        )
        if not isinstance(values, list) or not _is_known(values):
            raise ProtocolError("network token of an unknown version")
        network = _id_or_any(values[1])
        if network is None:
            raise ProtocolError("network token names no network")
        return NetworkToken(
            network=network,
            peer_id=_id_or_any(values[2]),
            relay_id=_id_or_any(values[3]),
            not_after_us=_number(values[4], 1 << 63),
            role=Role(_number(values[5], 256)),
            rate_class=RateClass(_number(values[6], 256)),
            serial=_number(values[7], 1 << 64) if len(values) == 8 else 0,
        )
    except (ValueError, msgpack.UnpackException, WeakKey) as exc:
        raise ProtocolError(f"network token: {exc}") from exc


def check_token(raw: bytes, network: PeerId, visit: Visit) -> NetworkToken | TokenFault:
    """Return the token if it admits this visitor, else the first thing wrong with it.

    The signature is checked before anything else that the token claims (faults B39).
    """
    if not raw:
        return TokenFault.MISSING
    try:
        token = parse_token(raw)
    except ProtocolError:
        return TokenFault.MALFORMED
    body, signature = raw[:-SIGNATURE_BYTES], raw[-SIGNATURE_BYTES:]
    faults = (
        (token.network != network, TokenFault.FOREIGN),
        (not verify(network, _DOMAIN + body, signature), TokenFault.FORGED),
        (token.peer_id not in (None, visit.peer_id), TokenFault.NOT_YOURS),
        (token.relay_id not in (None, visit.relay_id), TokenFault.OTHER_RELAY),
        (token.role not in (Role.ANY, visit.role), TokenFault.OTHER_ROLE),
        (0 < token.not_after_us < visit.now_us, TokenFault.EXPIRED),
    )
    return next((fault for wrong, fault in faults if wrong), token)
