r"""Resume tickets: a relay's word that a peer was here before. No I/O in here.

    ticket = u8 version (1) || 32 B peer id || u64 not_after_s (wall clock)
             || 32 B HMAC-SHA256 over DOMAIN || what is before it          (73 B)

A peer gets one in its WELCOME and shows it when it comes back, as a second subprotocol
of the upgrade: `p2pmoe-ticket.` and the ticket in base64url without padding, which a
browser can send too. The relay keeps nothing: the key is derived from its identity key,
so a ticket holds over a restart, and for longer than connections last, since a peer is
given no other meanwhile. It admits nobody; it lets its peer get as far as the
proof of its id though many new connections come from its address (`relay.gate`).
"""

import base64
import binascii
import hashlib
import hmac
import struct
from collections.abc import Iterable
from typing import Final

from relay.keys import PeerId

__all__ = [
    "MAX_TICKET_BYTES",
    "TICKET_S",
    "TicketOffice",
    "ticket_of",
    "ticket_subprotocol",
]

TICKET_S: Final = 30 * 24 * 3600
MAX_TICKET_BYTES: Final = 128
_PREFIX: Final = "p2pmoe-ticket."
_MAX_TEXT: Final = len(_PREFIX) + MAX_TICKET_BYTES * 4 // 3 + 2
_VERSION: Final = 1
_KEY_DOMAIN: Final = b"p2pmoe relay ticket key v1\0"
_DOMAIN: Final = b"p2pmoe relay ticket v1\0"
_BODY = struct.Struct("!B32sQ")
_MAC_BYTES: Final = 32


class TicketOffice:
    """Issues tickets and knows its own. `seed`: the relay's identity seed, 32 bytes."""

    def __init__(self, seed: bytes) -> None:
        self._key = hmac.digest(seed, _KEY_DOMAIN, hashlib.sha256)

    def issue(self, peer_id: PeerId, wall_us: int) -> bytes:
        """Return a ticket of this peer that holds for 30 days from `wall_us` on."""
        not_after_s = max(0, wall_us) // 1_000_000 + TICKET_S
        body = _BODY.pack(_VERSION, peer_id, not_after_s)
        return body + self._mac(body)

    def holder(self, ticket: bytes, wall_us: int) -> PeerId | None:
        """Return whose ticket it is; None if it is not ours, or too old."""
        if len(ticket) != _BODY.size + _MAC_BYTES:
            return None
        body, mac = ticket[: _BODY.size], ticket[_BODY.size :]
        if not hmac.compare_digest(mac, self._mac(body)):
            return None
        version, peer_id, not_after_s = _BODY.unpack(body)
        if version != _VERSION or wall_us // 1_000_000 > not_after_s:
            return None
        return PeerId(peer_id)

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, _DOMAIN + body, hashlib.sha256)


def ticket_subprotocol(ticket: bytes) -> str:
    """Return the subprotocol by which a ticket is shown."""
    return _PREFIX + base64.urlsafe_b64encode(ticket).decode("ascii").rstrip("=")


def ticket_of(offered: Iterable[str]) -> bytes:
    """Return the first ticket among headers of offered subprotocols, b"" if none."""
    for header in offered:
        for name in header.split(","):
            text = name.strip()
            if text.startswith(_PREFIX) and len(text) <= _MAX_TEXT:
                return _decoded(text.removeprefix(_PREFIX))
    return b""


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), "-_", validate=True)
    except (binascii.Error, ValueError):
        return b""
