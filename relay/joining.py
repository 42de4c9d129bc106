"""A peer's way in: upgrade, challenge, proof, welcome. Run once, by one task.

Every refusal becomes one error that says what to change: a proxy that wants a password,
one that strips the Upgrade header, a server that is no relay, a relay that says no.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from os import urandom

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, InvalidUpgrade, InvalidURI
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from relay.defaults import (
    AUTH_TIMEOUT_S,
    HTTP_TIMEOUT_S,
    MAX_MESSAGE_BYTES,
    READ_BYTES,
    SUBPROTOCOL,
)
from relay.endpoint import Endpoint
from relay.errors import (
    EndpointError,
    ProtocolError,
    RelayUnreachable,
    WrongRelayId,
)
from relay.frame_types import FrameType
from relay.greetings import (
    Challenge,
    Welcome,
    encode_auth,
    parse_challenge,
    parse_deny,
    parse_welcome,
)
from relay.handshake import (
    Credentials,
    answer_challenge,
    check_welcome,
    client_nonce,
    denial_error,
)
from relay.keys import short_id
from relay.tickets import ticket_subprotocol

__all__ = ["Joined", "join"]

_LOG = logging.getLogger("p2pmoe.relay.websocket")
_LOG.setLevel(logging.WARNING)
_UPGRADE_ADVICE = (
    "let the front or proxy pass the headers Upgrade and Connection, or use wss on "
    "port 443"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Joined:
    """An open connection; `early` holds what came right behind the welcome."""

    protocol: ClientProtocol
    welcome: Welcome
    early: list[Frame]


class _Opening:
    """The protocol object while one task both reads and writes."""

    def __init__(
        self, stream: trio.abc.Stream, endpoint: Endpoint, ticket: bytes
    ) -> None:
        try:
            uri = parse_uri(endpoint.url)
        except InvalidURI as exc:
            raise EndpointError(f"relay URL {endpoint.url!r}: {exc}") from exc
        self.endpoint = endpoint
        shown = [Subprotocol(ticket_subprotocol(ticket))] if ticket else []
        self.protocol = ClientProtocol(
            uri,
            subprotocols=[Subprotocol(SUBPROTOCOL), *shown],
            max_size=MAX_MESSAGE_BYTES,
            logger=_LOG,
        )
        self.frames: list[Frame] = []
        self.first_bytes = b""
        self._stream = stream

    def unreachable(self, reason: str, *, advice: str = "") -> RelayUnreachable:
        address = self.endpoint.address
        return RelayUnreachable(
            f"relay {address} {reason}", peer=address, advice=advice
        )

    async def flush(self) -> None:
        written = b"".join(self.protocol.data_to_send())
        if written:
            await self._stream.send_all(written)

    async def receive(self) -> list[Frame | Response]:
        """Read once; the events of what was read."""
        chunk = await self._stream.receive_some(READ_BYTES)
        self.first_bytes = self.first_bytes or bytes(chunk[:16])
        if chunk:
            self.protocol.receive_data(chunk)
        else:
            self.protocol.receive_eof()
        events = self.protocol.events_received()
        if not chunk and not events:
            raise self.unreachable("closed the connection while it was being opened")
        return [event for event in events if isinstance(event, Frame | Response)]

    async def upgrade(self) -> None:
        self.protocol.send_request(self.protocol.connect())
        await self.flush()
        while True:
            events = await self.receive()
            if _is_http2(self.first_bytes):
                raise self.unreachable(
                    "is answered by something that speaks HTTP/2 alone",
                    advice="let the front or proxy before it speak HTTP/1.1 (ALPN "
                    "http/1.1), which WebSocket upgrades need",
                )
            if self.protocol.handshake_exc is not None:
                raise _refusal(self, self.protocol.handshake_exc)
            if events:
                break
        if self.protocol.subprotocol != SUBPROTOCOL:
            raise self.unreachable(f"does not speak {SUBPROTOCOL}")
        self.frames.extend(e for e in events[1:] if isinstance(e, Frame))

    async def next_message(self) -> bytes:
        while not self.frames:
            events = await self.receive()
            self.frames.extend(e for e in events if isinstance(e, Frame))
        frame = self.frames.pop(0)
        if frame.opcode is Opcode.CLOSE:
            raise self.unreachable(f"closed the connection: {self.protocol.close_rcvd}")
        if frame.opcode is not Opcode.BINARY or not frame.fin:
            raise ProtocolError("the relay sent no whole binary message")
        return bytes(frame.data)

    async def send_message(self, message: bytes) -> None:
        self.protocol.send_binary(message)
        await self.flush()


def _refusal(opening: _Opening, exc: Exception) -> RelayUnreachable:
    if isinstance(exc, InvalidUpgrade):
        return opening.unreachable(
            "answers without the Upgrade header: a proxy removes it",
            advice=_UPGRADE_ADVICE,
        )
    if not isinstance(exc, InvalidStatus):
        return opening.unreachable(f"gives no valid answer to the upgrade: {exc}")
    return _refusal_by_status(opening, exc.response.status_code)


def _refusal_by_status(opening: _Opening, status: int) -> RelayUnreachable:
    if status == 407:
        reason = f"is behind a proxy that wants a password (HTTP {status})"
        advice = "set HTTPS_PROXY to http://USER:PASSWORD@PROXY:PORT"
    elif status == 426:
        reason = f"did not get our Upgrade header (HTTP {status}): a proxy removes it"
        advice = _UPGRADE_ADVICE
    elif status in (403, 451, 511):
        reason = (
            f"is kept from us by something on the way (HTTP {status}): a proxy, a "
            "filter, or a login page of this network"
        )
        advice = (
            "log in to the network, or ask who runs it to allow WebSockets to "
            f"{opening.endpoint.address}"
        )
    elif status in (429, 503):
        reason, advice = f"takes no connection now (HTTP {status})", ""
    else:
        reason = f"answers HTTP {status}, so it is no relay at this path"
        advice = ""
    return opening.unreachable(reason, advice=advice)


def _is_http2(first: bytes) -> bool:
    """Tell whether the first bytes are an HTTP/2 SETTINGS frame on stream 0."""
    return len(first) >= 9 and first[3] == 4 and first[5:9] == bytes(4)


async def join(
    stream: trio.abc.Stream,
    endpoint: Endpoint,
    credentials: Credentials,
    wall_us: Callable[[], int],
) -> Joined:
    """Open the protocol on a fresh stream.

    Raises:
        RelayUnreachable: no answer in time, or what answers is no relay.
        WrongRelayId: another id than the pinned one, or one it cannot prove.
        HandshakeRefused: the relay says no (TokenRefused, RelayBusy and others).
    """
    opening = _Opening(stream, endpoint, credentials.ticket)
    try:
        with trio.fail_after(HTTP_TIMEOUT_S):
            await opening.upgrade()
        with trio.fail_after(AUTH_TIMEOUT_S):
            welcome = await _authenticate(opening, credentials, wall_us)
    except trio.TooSlowError as exc:
        raise opening.unreachable("does not answer in time") from exc
    except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
        raise opening.unreachable("closed the connection during the handshake") from exc
    except ProtocolError as exc:
        raise opening.unreachable(f"breaks the protocol: {exc}") from exc
    return Joined(protocol=opening.protocol, welcome=welcome, early=opening.frames)


async def _authenticate(
    opening: _Opening, credentials: Credentials, wall_us: Callable[[], int]
) -> Welcome:
    challenge = parse_challenge(await opening.next_message())
    _check_pin(opening.endpoint, challenge)
    nonce = client_nonce(wall_us(), urandom(8))
    auth = answer_challenge(challenge, credentials, opening.endpoint.host, nonce)
    await opening.send_message(encode_auth(auth))
    answer = await opening.next_message()
    if answer[:1] == bytes([FrameType.DENY]):
        raise denial_error(parse_deny(answer), opening.endpoint.address)
    welcome = parse_welcome(answer, challenge.relay_id)
    check_welcome(welcome, challenge, auth)
    return welcome


def _check_pin(endpoint: Endpoint, challenge: Challenge) -> None:
    pinned = endpoint.relay_id
    if pinned is not None and challenge.relay_id != pinned:
        raise WrongRelayId(
            f"{endpoint.address} is relay {short_id(challenge.relay_id)}, "
            f"not {short_id(pinned)}",
            peer=endpoint.address,
        )
