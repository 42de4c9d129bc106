"""From a fresh socket to an admitted peer: TLS, HTTP, challenge, proof, welcome.

One task does it all, reading and writing by turns, under two deadlines: 5 s for TLS and
the HTTP request, 5 s for the proof. A request that is no upgrade of the relay's path is
answered with a page. What the gate lets in for its ticket only is closed before the
WebSocket handshake without one. Whatever is wrong ends the connection with a close code
or status and one count by cause; nothing of it reaches the switch.
"""

import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from os import urandom
from typing import NoReturn

import trio
from websockets.exceptions import SecurityError
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from relay.defaults import (
    AUTH_TIMEOUT_S,
    CLOSE_TIMEOUT_S,
    HTTP_TIMEOUT_S,
    MAX_MESSAGE_BYTES,
    MAX_REASON_BYTES,
    READ_BYTES,
    SUBPROTOCOL,
)
from relay.entrance import Entrance
from relay.errors import KnockRefused, ProtocolError
from relay.frame_types import Limits
from relay.frames import cut_utf8
from relay.fronts import forwarded_address
from relay.greetings import (
    NONCE_BYTES,
    SESSION_BYTES,
    Challenge,
    Deny,
    DenyCode,
    Welcome,
    encode_challenge,
    encode_deny,
    encode_welcome,
    parse_auth,
)
from relay.handshake import Admitted, Gatekeeper, sign_welcome
from relay.keys import PeerId, SigningKey
from relay.live import LiveSettings
from relay.page_sockets import STATUS_PATH, Viewers
from relay.pages import (
    PLAIN_PATHS,
    PageResponse,
    Pages,
    host_name,
    render_head,
)
from relay.server_tls import ServerTls
from relay.streams import TcpStream
from relay.tickets import TicketOffice, ticket_of
from relay.tls_stream import TlsStream
from relay.visits import Visit, visit_pages

__all__ = ["Doorway", "Guest", "linger"]

_LOG = logging.getLogger("p2pmoe.relay.websocket")
_LOG.setLevel(logging.WARNING)
_MAX_LAST_READS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """An admitted peer, told its `limits`, that does not yet have its two tasks.

    `address`: from which it comes, as far as the relay can tell.
    """

    stream: trio.abc.Stream
    transport: TcpStream
    protocol: ServerProtocol
    admitted: Admitted
    limits: Limits
    early: list[Frame]
    address: str = ""


@dataclass(slots=True, kw_only=True)
class _Knock:
    """One connection on its way in."""

    stream: trio.abc.Stream
    transport: TcpStream
    protocol: ServerProtocol
    entrance: Entrance
    remote: str
    address: str
    host: str = ""
    forwarded: bool = False
    holder: PeerId | None = None  # of the valid ticket that was shown
    is_plain: bool = False  # without TLS, though the relay has it


@dataclass(frozen=True, slots=True, kw_only=True)
class Doorway:
    """What all connections of one relay have in common before they are admitted.

    `unready` returns why no peer is taken now, or "". `trust_forwarded`: the address
    that a front on loopback reports is believed. `exact_path`: paths below `path` are
    not the relay's. `live` returns the settings in force. `plain_pages`: what is no
    secret is told without TLS too, to browsers that do not know its certificate's kind.
    """

    identity: SigningKey
    gatekeeper: Gatekeeper
    tickets: TicketOffice
    pages: Pages
    wall_us: Callable[[], int]
    tls: ServerTls | None
    descriptor: bytes
    path: str
    exact_path: bool
    trust_forwarded: bool
    unready: Callable[[], str]
    live: Callable[[], LiveSettings]
    viewers: Viewers | None = None
    plain_pages: bool = False

    async def open(self, transport: TcpStream, entrance: Entrance) -> Guest | None:
        """Let a connection in; None if it was a page's.

        `entrance` is left once the connection is no longer a handshake in flight.

        Raises:
            KnockRefused: it broke a rule or was denied; the stream may be half-closed.
        """
        knock = _Knock(
            stream=transport,
            transport=transport,
            protocol=_new_protocol(),
            entrance=entrance,
            remote=entrance.remote,
            address=transport.remote_address,
        )
        try:
            with trio.fail_after(HTTP_TIMEOUT_S):
                await self._open_tls(knock)
                request = await _read_request(knock)
            self._note_request(knock, request)
            await self._pass_gate(knock)
            if knock.is_plain and request.path.partition("?")[0] not in PLAIN_PATHS:
                await _turn_away(knock, PageResponse(status=403), "plaintext")
            if self.viewers is not None and _asks_for_status(request):
                entrance.leave()
                await self.viewers.serve(
                    knock.stream, knock.protocol, request, knock.remote
                )
                await linger(knock.transport)
                return None
            if not self._is_upgrade(request):
                entrance.leave()
                await visit_pages(self._visit(knock), request)
                await linger(knock.transport)
                return None
            with trio.fail_after(AUTH_TIMEOUT_S):
                guest = await self._let_in(knock, request)
            entrance.leave(proven=True)
        except trio.TooSlowError as exc:
            raise KnockRefused("too slow") from exc
        except ProtocolError as exc:
            await _close(knock, exc.close_code, str(exc))
            raise KnockRefused("protocol", str(exc)) from exc
        except (trio.BrokenResourceError, trio.ClosedResourceError) as exc:
            raise KnockRefused("disconnected") from exc
        return guest

    async def _open_tls(self, knock: _Knock) -> None:
        if self.tls is None:
            return
        if self.plain_pages and await knock.transport.peek() in (b"G", b"H"):
            knock.is_plain = True  # GET or HEAD: a TLS record begins otherwise
            return
        stream = TlsStream(knock.transport, self.tls.context, server_side=True)
        try:
            await stream.do_handshake()
        except (trio.BrokenResourceError, ssl.SSLError) as exc:
            raise KnockRefused("tls") from exc
        knock.stream = stream

    def _note_request(self, knock: _Knock, request: Request) -> None:
        headers = request.headers
        host = headers.get_all("Host")
        knock.host = host_name(host[0]) if host else ""
        forwarded = headers.get_all("X-Forwarded-For")
        knock.forwarded = bool(forwarded) or "Forwarded" in headers or "Via" in headers
        if forwarded and knock.entrance.is_front:
            trusted = self.live().trusted_proxies
            named = forwarded_address(forwarded, trusted)
            if named is not None:
                knock.remote = knock.address = named
        ticket = ticket_of(headers.get_all("Sec-WebSocket-Protocol"))
        if ticket:
            knock.holder = self.tickets.holder(ticket, self.wall_us())

    async def _pass_gate(self, knock: _Knock) -> None:
        """Have the gate count what a front names; see a ticket where one is needed."""
        entrance = knock.entrance
        named = knock.remote if knock.remote != entrance.remote else None
        if not entrance.settle(named):
            cause = "address rate"
        elif entrance.wants_ticket_of(knock.holder):
            cause = "no ticket"
        else:
            return
        page = PageResponse(status=429, headers={"Retry-After": "5"})
        await _turn_away(knock, page, cause)

    def _is_upgrade(self, request: Request) -> bool:
        path = request.path.partition("?")[0]
        below = not self.exact_path and path.startswith(f"{self.path}/")
        return path == self.path or below

    def _visit(self, knock: _Knock) -> Visit:
        return Visit(
            stream=knock.stream,
            pages=self.pages,
            remote=knock.remote,
            forwarded=knock.forwarded,
        )

    async def _let_in(self, knock: _Knock, request: Request) -> Guest:
        protocol = knock.protocol
        response = protocol.accept(request)
        protocol.send_response(response)
        # The protocol object keeps its request: 2 KB a connection for nothing.
        request.headers.clear()
        if protocol.state is not State.OPEN:
            await _flush(knock)
            await linger(knock.transport)
            raise KnockRefused("upgrade")
        challenge = Challenge(
            relay_id=self.identity.peer_id,
            nonce=urandom(NONCE_BYTES),
            time_ms=self.wall_us() // 1000,
        )
        protocol.send_binary(encode_challenge(challenge))
        await _flush(knock)
        message, early = await _read_message(knock)
        auth = parse_auth(message)
        judged = self.gatekeeper.judge(auth, challenge, knock.host, self.wall_us())
        reason = self.unready()
        if reason:
            judged = Deny(code=DenyCode.DRAINING, retry_ms=1000, text=reason)
        elif knock.entrance.needs_ticket and auth.peer_id != knock.holder:
            text = "this ticket is another peer's"
            judged = Deny(code=DenyCode.BUSY, retry_ms=5000, text=text)
        if isinstance(judged, Deny):
            protocol.send_binary(encode_deny(judged))
            await _close(knock, 1008, judged.text)
            raise KnockRefused("denied", judged.text)
        welcome = self._welcome(knock, judged, challenge)
        protocol.send_binary(encode_welcome(welcome))
        await _flush(knock)
        return Guest(
            stream=knock.stream,
            transport=knock.transport,
            protocol=protocol,
            admitted=judged,
            limits=welcome.limits,
            early=early,
            address=knock.remote,
        )

    def _welcome(
        self, knock: _Knock, admitted: Admitted, challenge: Challenge
    ) -> Welcome:
        live = self.live()
        unsigned = Welcome(
            relay_id=self.identity.peer_id,
            session=urandom(SESSION_BYTES),
            observed_address=knock.address,
            limits=live.limits(admitted.rate_class, admitted.lease_s),
            map_version=live.map_version,
            skew_us=admitted.skew_us,
            descriptor=self.descriptor,
            signature=b"",
            ticket=self.tickets.issue(admitted.peer_id, self.wall_us()),
        )
        return sign_welcome(unsigned, challenge, admitted, self.identity.sign)


def _new_protocol() -> ServerProtocol:
    return ServerProtocol(
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        max_size=MAX_MESSAGE_BYTES,
        logger=_LOG,
    )


async def _turn_away(knock: _Knock, page: PageResponse, cause: str) -> NoReturn:
    with trio.move_on_after(CLOSE_TIMEOUT_S):
        await knock.stream.send_all(render_head(page))
        await linger(knock.transport)
    raise KnockRefused(cause)


def _asks_for_status(request: Request) -> bool:
    path = request.path.partition("?")[0]
    return path == STATUS_PATH and "Upgrade" in request.headers


async def _flush(knock: _Knock) -> None:
    written = b"".join(knock.protocol.data_to_send())
    if written:
        await knock.stream.send_all(written)


async def _receive(knock: _Knock) -> list[object]:
    chunk = await knock.stream.receive_some(READ_BYTES)
    if not chunk:
        raise KnockRefused("disconnected")
    knock.protocol.receive_data(chunk)
    return list(knock.protocol.events_received())


async def _read_request(knock: _Knock) -> Request:
    while True:
        events = await _receive(knock)
        if knock.protocol.handshake_exc is not None:
            if not isinstance(knock.protocol.handshake_exc, SecurityError):
                await _turn_away(knock, PageResponse(status=400), "request")
            await _flush(knock)
            await linger(knock.transport)
            raise KnockRefused("request too long")
        if events and isinstance(events[0], Request):
            return events[0]


async def _read_message(knock: _Knock) -> tuple[bytes, list[Frame]]:
    """Read the first message of the peer; what came behind it is returned too."""
    while True:
        frames = [event for event in await _receive(knock) if isinstance(event, Frame)]
        if knock.protocol.state is not State.OPEN:
            await _flush(knock)
            await linger(knock.transport)
            raise KnockRefused("protocol", "closed before it was authenticated")
        if frames:
            first = frames[0]
            if first.opcode is not Opcode.BINARY or not first.fin:
                raise ProtocolError("the first message is not one binary frame")
            return bytes(first.data), frames[1:]
        await _flush(knock)


async def _close(knock: _Knock, code: int, reason: str) -> None:
    if knock.protocol.state is State.OPEN:
        knock.protocol.send_close(code, cut_utf8(reason, MAX_REASON_BYTES))
    with trio.move_on_after(CLOSE_TIMEOUT_S, shield=True):
        try:
            await _flush(knock)
            await linger(knock.transport)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return


async def linger(transport: TcpStream) -> None:
    """Half-close and read on for at most a second, and a megabyte.

    Closing a socket with unread bytes resets the connection, and the reset may overtake
    the last words that were written.
    """
    with trio.move_on_after(CLOSE_TIMEOUT_S):
        try:
            await transport.send_eof()
            for _ in range(_MAX_LAST_READS):
                if not await transport.receive_some(READ_BYTES):
                    return
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return
