"""The fronts of the how-to, run for real: what goes through them, and what does not."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial

import pytest
import trio
from websockets.client import ClientProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from relay.client import ClientSettings
from relay.defaults import SUBPROTOCOL
from relay.endpoint import Endpoint
from relay.errors import ConnectionLost, RelayError, RemoteRelayError
from relay.greetings import encode_auth, parse_challenge, parse_welcome
from relay.handshake import answer_challenge, client_nonce
from relay.server import RunningRelay
from relay.tls import client_context, pinning_context
from tests.support.fronts import Front, front, has_close_delay
from tests.support.raw_clients import until
from tests.support.relays import (
    RawPeer,
    credentials,
    joined,
    key,
    plain_config,
    running_relay,
    wall_us,
)
from tests.support.trio_test import trio_test

ONE = ("nginx.conf", "Caddyfile")
SHARDS = ("nginx-shards.conf", "Caddyfile.shards")
A, B = key(1), key(2)


def to(relay: RunningRelay, port: int = 8443) -> dict[str, str]:
    return {f"127.0.0.1:{port}": f"127.0.0.1:{relay.port}"}


@contextlib.asynccontextmanager
async def relay_behind(
    name: str, **changes: str
) -> AsyncIterator[tuple[RunningRelay, Front]]:
    async with running_relay() as relay:
        with front(name, to(relay) | changes) as running:
            yield relay, running


async def get(running: Front, path: str, **headers: str) -> str:
    """Return the whole answer to a GET through the front."""
    context = client_context(running.files.certificate)
    stream = await trio.open_ssl_over_tcp_stream(
        "localhost", running.port, ssl_context=context, https_compatible=True
    )
    lines = [f"GET {path} HTTP/1.1", f"Host: localhost:{running.port}"]
    sent = {"Connection": "close"} | headers
    lines += [f"{name}: {value}" for name, value in sent.items()]
    answer = b""
    async with stream:
        await stream.send_all("\r\n".join([*lines, "", ""]).encode())
        while part := await stream.receive_some():
            answer += part
    return answer.decode()


async def echo(connection, size: int) -> None:
    """Send a frame to oneself and wait for it."""
    payload = bytes([size % 251]) * size
    connection.send(A.peer_id, payload, nack=False)
    event = await anext(connection.events())
    assert event.payload == payload


@pytest.mark.parametrize("name", ONE)
@trio_test
async def test_peers_join_and_the_largest_frames_pass(name: str) -> None:
    async with relay_behind(name) as (relay, running):
        async with joined(running.endpoint(relay.relay_id), A) as connection:
            for size in (0, 1, 65_535, 65_535):
                await echo(connection, size)
        assert "200 OK" in await get(running, "/livez")


@pytest.mark.parametrize("name", ONE)
@trio_test
async def test_the_relay_believes_no_forged_address(
    name: str,
) -> None:
    async with relay_behind(name) as (relay, running):
        endpoint = running.endpoint(relay.relay_id)
        forged = {
            "X-Forwarded-For": "6.6.6.6",
            "X-Real-IP": "6.6.6.6",
            "Forwarded": "for=6.6.6.6",
        }
        assert "6.6.6.6" not in await observed_address(running, endpoint, forged)
        # What only loopback may see, a client does not, whatever address it claims.
        for path in ("/metrics", "//metrics", "/./metrics", "/%6detrics"):
            answer = await get(running, path, **{"X-Forwarded-For": "127.0.0.1"})
            assert "p2pmoe_relay" not in answer, path


@pytest.mark.parametrize("name", ONE)
@trio_test
async def test_a_front_tells_the_clients_address_and_host_and_nothing_forged(
    name: str,
) -> None:
    to_read, seen = trio.open_memory_channel[str](1)

    async def note(stream: trio.SocketStream) -> None:
        await to_read.send((await until(stream, b"\r\n\r\n")).decode())

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, note, 0, host="127.0.0.1")
        (listener,) = await nursery.start(serve)
        port = listener.socket.getsockname()[1]
        with front(name, {"127.0.0.1:8443": f"127.0.0.1:{port}"}) as running:
            forged = {"X-Forwarded-For": "6.6.6.6", "Upgrade": "websocket"}
            asking = partial(get, running, "/relay", Connection="Upgrade", **forged)
            nursery.start_soon(asking)
            head = await seen.receive()
            nursery.cancel_scope.cancel()
    lines = [line.lower() for line in head.split("\r\n")]
    told = [line for line in lines if line.startswith("x-forwarded-for:")]
    assert told in ([f"x-forwarded-for: {each}"] for each in ("127.0.0.1", "::1"))
    assert "upgrade: websocket" in lines
    assert "connection: upgrade" in lines
    assert f"host: localhost:{running.port}" in lines


async def observed_address(
    running: Front, endpoint: Endpoint, headers: dict[str, str]
) -> str:
    """Join with these headers; return the address that WELCOME tells."""
    stream = await trio.open_ssl_over_tcp_stream(
        "localhost",
        running.port,
        ssl_context=client_context(running.files.certificate),
    )
    async with stream:
        raw = RawPeer(stream, running.port)
        raw.protocol = ClientProtocol(
            parse_uri(endpoint.url), subprotocols=[Subprotocol(SUBPROTOCOL)]
        )
        request = raw.protocol.connect()
        for header in headers.items():
            request.headers.__setitem__(*header)
        raw.protocol.send_request(request)
        await raw.flush()
        challenge = parse_challenge(await raw.message())
        nonce = client_nonce(wall_us(), bytes(8))
        auth = answer_challenge(challenge, credentials(A), "localhost", nonce)
        await raw.send(encode_auth(auth))
        welcome = parse_welcome(await raw.message(), challenge.relay_id)
        await trio.aclose_forcefully(stream)
    return welcome.observed_address


@pytest.mark.parametrize("name", ONE)
@trio_test
async def test_a_reload_brings_the_new_certificate_and_cuts_nobody_who_may_stay(
    name: str,
) -> None:
    async with relay_behind(name) as (relay, running):
        endpoint = running.endpoint(relay.relay_id)
        before = await shown_certificate(running)
        async with joined(endpoint, A) as connection:
            await echo(connection, 100)
            running.renew_certificate()
            running.reload()
            with trio.fail_after(30):
                while await shown_certificate(running) == before:
                    pass  # a handshake takes its time
            if name.startswith("nginx") or has_close_delay():
                await echo(connection, 65_535)
            else:  # an old Caddy closes it, and says so
                with pytest.raises(ConnectionLost):
                    await anext(connection.events())
        with trio.fail_after(30):
            while not await joins(endpoint):
                pass  # nginx's old workers may take a last connection or two


async def joins(endpoint: Endpoint) -> bool:
    try:
        async with joined(endpoint, A) as connection:
            await echo(connection, 100)
    except RemoteRelayError:  # the certificate of before, or cut off with its worker
        return False
    return True


async def shown_certificate(running: Front) -> bytes | None:
    """Return the certificate that the front shows to a new handshake."""
    stream = await trio.open_ssl_over_tcp_stream(
        "localhost", running.port, ssl_context=pinning_context()
    )
    await stream.do_handshake()
    certificate = stream.getpeercert(binary_form=True)
    await trio.aclose_forcefully(stream)
    return certificate


@pytest.mark.slow
@trio_test
async def test_b26_an_idle_connection_outlives_the_fronts_time_out() -> None:
    """nginx's time-out and the pings both at a fifteenth: 75 s and 15 s, at most 18."""
    changes = {"proxy_read_timeout 75s": "proxy_read_timeout 5s"}
    often, never = (ClientSettings(ping_interval_s=each) for each in (1.0, 600.0))
    async with relay_behind("nginx.conf", **changes) as (relay, running):
        endpoint = running.endpoint(relay.relay_id)
        async with joined(endpoint, A, settings=often) as pinging:
            for _ in range(2):
                async with joined(endpoint, B, settings=never) as silent:
                    with pytest.raises(ConnectionLost):  # so the time-out is real
                        await anext(silent.events())
            await echo(pinging, 100)


@pytest.mark.parametrize("name", ONE)
@trio_test
async def test_the_status_page_is_live_through_the_front(name: str) -> None:
    async with running_relay(status=dict) as relay:
        with front(name, to(relay)) as running:
            assert "<title>" in await get(running, "/")
            context = client_context(running.files.certificate)
            stream = await trio.open_ssl_over_tcp_stream(
                "localhost", running.port, ssl_context=context
            )
            asked = ClientProtocol(
                parse_uri(f"wss://localhost:{running.port}/status"),
                origin=f"https://localhost:{running.port}",
            )
            asked.send_request(asked.connect())
            await stream.send_all(b"".join(asked.data_to_send()))
            answer = await stream.receive_some()
            assert answer.startswith(b"HTTP/1.1 101 "), answer
            await trio.aclose_forcefully(stream)


@pytest.mark.parametrize("name", SHARDS)
@trio_test
async def test_each_shard_is_a_relay_of_its_own_behind_one_name(name: str) -> None:
    first = plain_config(identity=key(31), shard=1)
    second = plain_config(identity=key(32), shard=2)
    async with running_relay(first) as one, running_relay(second) as two:
        with front(name, to(one, 8441) | to(two, 8442)) as running:
            ends = [
                running.endpoint(relay.relay_id, relay.path) for relay in (one, two)
            ]
            async with joined(ends[0], A) as at_one, joined(ends[1], A) as at_two:
                await echo(at_one, 100)
                await echo(at_two, 100)
                assert [len(r.switch.registry.active) for r in (one, two)] == [1, 1]
            for path in ("/relay/3", "/relay/12", "/relay/1/2", "/relay/"):
                assert " 404 " in (await get(running, path)).partition("\r\n")[0], path
            with pytest.raises(RelayError):
                async with joined(running.endpoint(one.relay_id, "/relay/2"), A):
                    pass
            assert " 200 " in await get(running, "/livez")


@trio_test
async def test_plain_http_is_sent_to_https() -> None:
    async with relay_behind("nginx.conf") as (_, running):
        stream = await trio.open_tcp_stream("127.0.0.1", running.plain_port)
        async with stream:
            await stream.send_all(b"GET /x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = await until(stream, b"\r\n\r\n")
        assert b"301" in answer
        assert b"Location: https://localhost/x\r\n" in answer
