"""Every wait has an end: who dawdles at the relay, and a relay that dawdles.

On a clock that jumps. A dawdler sends a byte a second, or pings that ask for life: its
deadline is counted from the start of the phase and moves for nothing.
"""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol

from relay import Endpoint, Received, RelayUnreachable, connect
from relay.defaults import (
    AUTH_TIMEOUT_S,
    DIAL_TIMEOUT_S,
    HTTP_TIMEOUT_S,
    PAGE_TIMEOUT_S,
    SUBPROTOCOL,
)
from relay.frame_types import FrameType
from relay.greetings import Challenge, encode_auth, encode_challenge, parse_challenge
from relay.handshake import answer_challenge, client_nonce
from relay.pages import PageRequest, PageResponse
from relay.streams import TcpStream
from relay.tls import pinning_context
from tests.support.nodes import until
from tests.support.relays import (
    PLAINTEXT,
    RELAY,
    RawPeer,
    credentials,
    joined,
    key,
    raw_peer,
    running_relay,
    tls_config,
    wall_us,
)
from tests.support.trio_test import trio_test

PEER = key(1)
HOST = "127.0.0.1"
REQUEST = (
    "GET /relay HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n"
    "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
).encode()


def client_hello() -> bytes:
    outgoing = ssl.MemoryBIO()
    tls = pinning_context().wrap_bio(ssl.MemoryBIO(), outgoing)
    with pytest.raises(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


async def trickle(stream: TcpStream, wire: bytes) -> None:
    """Send a byte a second for as long as the other end takes them."""
    try:
        for byte in wire:
            await stream.send_all(bytes([byte]))
            await trio.sleep(1.0)
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        return


async def seconds_until_closed(raw: RawPeer, wire: bytes) -> float:
    """Trickle, reading all that comes; how long the relay put up with it."""
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trickle, raw.stream, wire)
        await raw.close_code()
        nursery.cancel_scope.cancel()
    return trio.current_time() - began


async def at_tls(raw: RawPeer) -> bytes:
    return client_hello()


async def at_http(raw: RawPeer) -> bytes:
    return REQUEST


async def at_auth(raw: RawPeer) -> bytes:
    """The proof, byte by byte."""
    await raw.upgrade()
    challenge = parse_challenge(await raw.message())
    nonce = client_nonce(wall_us(), bytes(8))
    auth = answer_challenge(challenge, credentials(PEER), HOST, nonce)
    raw.protocol.send_binary(encode_auth(auth))
    return b"".join(raw.protocol.data_to_send())


async def at_auth_with_pings(raw: RawPeer) -> bytes:
    """Pings of the WebSocket layer, each whole within seconds: no proof of anything."""
    await raw.upgrade()
    await raw.message()
    return b"\x89\x80\0\0\0\0" * 20


PHASES: dict[str, tuple[Callable[[RawPeer], Awaitable[bytes]], float]] = {
    "tls": (at_tls, HTTP_TIMEOUT_S),
    "http": (at_http, HTTP_TIMEOUT_S),
    "auth": (at_auth, AUTH_TIMEOUT_S),
    "auth, with pings": (at_auth_with_pings, AUTH_TIMEOUT_S),
}


@pytest.mark.parametrize("phase", PHASES)
@trio_test(autojump=True)
async def test_a_byte_a_second_is_too_slow_in_every_phase(phase: str) -> None:
    begin, limit_s = PHASES[phase]
    config = tls_config() if phase == "tls" else None
    async with running_relay(config) as relay, raw_peer(relay) as raw:
        waited_s = await seconds_until_closed(raw, await begin(raw))
        assert waited_s == pytest.approx(limit_s, abs=0.2)
        assert relay.counters.refused == {"too slow": 1}


@trio_test(autojump=True)
async def test_a_page_is_not_waited_on_for_ever() -> None:
    """Its reader has minutes, and a write that does not move has two seconds."""

    async def endless(_: PageRequest) -> PageResponse:
        async def chunks() -> AsyncIterator[bytes]:
            while True:
                yield bytes(100)
                await trio.sleep(1.0)

        return PageResponse(chunks=chunks())

    async with running_relay(pages={"/endless": endless}) as relay:
        async with raw_peer(relay) as raw:
            began = trio.current_time()
            await raw.stream.send_all(b"GET /endless HTTP/1.1\r\nHost: x\r\n\r\n")
            try:
                while await raw.stream.receive_some():
                    pass
            except trio.BrokenResourceError:
                pass
            waited_s = trio.current_time() - began
            assert waited_s == pytest.approx(PAGE_TIMEOUT_S, abs=2.0)


class Dawdler:
    """A server that stops at a phase and says no more; "upgrade" is the first."""

    def __init__(self, phase: str) -> None:
        self.phase = phase

    async def serve(self, stream: trio.SocketStream) -> None:
        protocol = ServerProtocol(subprotocols=[Subprotocol(SUBPROTOCOL)])
        async with stream:
            while chunk := await stream.receive_some():
                if self.phase == "upgrade":
                    continue
                protocol.receive_data(chunk)
                for event in protocol.events_received():
                    if isinstance(event, Request):
                        await self.welcome(stream, protocol, event)

    async def welcome(
        self, stream: trio.SocketStream, protocol: ServerProtocol, request: Request
    ) -> None:
        protocol.send_response(protocol.accept(request))
        if self.phase == "trickled upgrade":
            for byte in b"".join(protocol.data_to_send()):
                await stream.send_all(bytes([byte]))
                await trio.sleep(1.0)
        if self.phase == "welcome":
            challenge = Challenge(relay_id=RELAY.peer_id, nonce=bytes(32), time_ms=1)
            protocol.send_binary(encode_challenge(challenge))
        await stream.send_all(b"".join(protocol.data_to_send()))


@asynccontextmanager
async def dawdling(phase: str) -> AsyncIterator[Endpoint]:
    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(
            partial(trio.serve_tcp, Dawdler(phase).serve, 0, host=HOST)
        )
        port = listener.socket.getsockname()[1]
        scheme = "wss" if phase == "tls" else "ws"
        yield Endpoint(f"{scheme}://{HOST}:{port}/relay", RELAY.peer_id)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("phase", "limit_s"),
    [
        ("upgrade", HTTP_TIMEOUT_S),
        ("trickled upgrade", HTTP_TIMEOUT_S),
        ("challenge", AUTH_TIMEOUT_S),
        ("welcome", AUTH_TIMEOUT_S),
    ],
)
@trio_test(autojump=True)
async def test_a_relay_that_dawdles_is_left(phase: str, limit_s: float) -> None:
    began = trio.current_time()
    with trio.fail_after(60):
        async with dawdling(phase) as endpoint:
            with pytest.raises(RelayUnreachable, match="in time"):
                async with joined(endpoint, PEER):
                    raise AssertionError("no welcome came")
            assert trio.current_time() - began == pytest.approx(limit_s, abs=0.2)


@trio_test(autojump=True)
async def test_a_server_without_tls_where_tls_belongs_is_left() -> None:
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, Dawdler("upgrade").serve, 0, host=HOST)
        [listener] = await nursery.start(serve)
        port = listener.socket.getsockname()[1]
        endpoint = Endpoint(f"wss://{HOST}:{port}/relay", RELAY.peer_id)
        with pytest.raises(RelayUnreachable):
            async with joined(endpoint, PEER, settings=PLAINTEXT):
                raise AssertionError("no TLS was spoken")
        assert trio.current_time() - began <= DIAL_TIMEOUT_S + 0.2
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_a_closing_relay_and_a_peer_that_does_not_close_part_in_a_second() -> (
    None
):
    async with running_relay() as relay, raw_peer(relay, PEER) as raw:
        await raw.send(bytes([FrameType.GONE]))  # nothing that a peer sends
        began = trio.current_time()
        assert await raw.close_code() == 1008
        await until(lambda: not relay.switch.registry.active)
        assert trio.current_time() - began <= 2.5


def test_b28_a_process_that_stood_still_loses_nobody() -> None:
    """Relay and peer are stopped for minutes with pings on their way, and go on."""
    clock = trio.testing.MockClock()

    def goes_on() -> int:
        return wall_us() + int(trio.current_time() * 1e6)

    async def main() -> None:
        async with (
            running_relay() as relay,
            connect(
                relay.endpoint(HOST),
                credentials(PEER),
                wall_us=goes_on,
                settings=PLAINTEXT,
            ) as connection,
        ):
            peer = relay.switch.registry.active[PEER.peer_id]
            for _ in range(3):
                await trio.testing.wait_all_tasks_blocked(0.002)
                # A ping was sent, and its answer waits, while nobody runs.
                peer.pinged_at = trio.current_time()
                clock.jump(300.0)
            await trio.testing.wait_all_tasks_blocked(0.002)
            connection.send(PEER.peer_id, b"still here")
            assert isinstance(await anext(connection.events()), Received)
            assert relay.counters.left.total() == 0

    trio.run(main, clock=clock)
