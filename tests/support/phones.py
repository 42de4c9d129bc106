"""Peers that come through a front which names one address for all of them."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from relay.greetings import (
    Deny,
    Welcome,
    encode_auth,
    parse_challenge,
    parse_deny,
    parse_welcome,
)
from relay.handshake import answer_challenge, client_nonce
from relay.keys import SigningKey
from relay.server import RunningRelay
from relay.tickets import ticket_subprotocol
from tests.support.relays import RawPeer, credentials, raw_peer, wall_us

__all__ = ["CARRIER", "Phone", "phone"]

CARRIER = "192.0.2.9"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phone:
    """A joined peer, or how it was turned away: a DENY, or the answer in HTTP."""

    raw: RawPeer
    welcome: Welcome | None = None
    deny: Deny | None = None
    http: bytes = b""


@contextlib.asynccontextmanager
async def phone(
    relay: RunningRelay,
    peer: SigningKey,
    *,
    ticket: bytes = b"",
    forwarded: str = CARRIER,
) -> AsyncIterator[Phone]:
    """Try to join an open relay behind a front; `forwarded` is X-Forwarded-For."""
    async with raw_peer(relay) as raw:
        request = raw.protocol.connect()
        if forwarded:
            request.headers["X-Forwarded-For"] = forwarded
        if ticket:
            offered = request.headers["Sec-WebSocket-Protocol"]
            del request.headers["Sec-WebSocket-Protocol"]
            shown = f"{offered}, {ticket_subprotocol(ticket)}"
            request.headers["Sec-WebSocket-Protocol"] = shown
        raw.protocol.send_request(request)
        await raw.flush()
        head = await raw.stream.receive_some(65536)
        if b"101 Switching" not in head:
            yield Phone(raw=raw, http=bytes(head))
            return
        raw.take(head)
        challenge = parse_challenge(await raw.message())
        nonce = client_nonce(wall_us(), bytes(8))
        auth = answer_challenge(challenge, credentials(peer), "127.0.0.1", nonce)
        await raw.send(encode_auth(auth))
        answer = await raw.message()
        if answer[:1] == b"\x23":
            yield Phone(raw=raw, deny=parse_deny(answer))
        else:
            yield Phone(raw=raw, welcome=parse_welcome(answer, relay.relay_id))
