"""Fetching the relay map: from a relay, and from whatever else may answer."""

import contextlib

import pytest
import trio

from relay.client import ClientSettings
from relay.endpoint import Endpoint
from relay.errors import ProtocolError, ProxySettingError, RelayUnreachable
from relay.groups import only_exception
from relay.map_client import fetch_map
from relay.pages import PageResponse
from relay.relay_map import MAX_MAP_BYTES, RelayEntry, RelayMap, sign_map
from tests.support.relays import NETWORK, PLAINTEXT, key, running_relay, tls_config
from tests.support.trio_test import trio_test

ENTRY = RelayEntry("wss://one.example/relay", key(1).peer_id)
MAP = sign_map(RelayMap(NETWORK.peer_id, 3, (ENTRY,)), NETWORK.sign)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: y\r\n\r\n"


async def fetched_from(answer: bytes, network: bytes = NETWORK.peer_id) -> object:
    """Fetch from a server that says `answer` to anybody and closes."""
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]

    async def serve(stream: trio.SocketStream) -> None:
        await stream.receive_some(4096)
        with contextlib.suppress(trio.BrokenResourceError):
            await stream.send_all(answer)
            await stream.send_eof()
        await trio.sleep_forever()

    async with only_exception(), trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, listeners)
        endpoint = Endpoint(f"ws://127.0.0.1:{port}/relay")
        try:
            return await fetch_map(endpoint, network, PLAINTEXT)
        finally:
            nursery.cancel_scope.cancel()


@trio_test
async def test_a_relay_hands_out_its_map() -> None:
    async def page(_request: object) -> PageResponse:
        return PageResponse(body=MAP.encoded)

    async with running_relay(tls_config(), pages={"/map": page}) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        assert await fetch_map(endpoint, NETWORK.peer_id) == MAP
        with pytest.raises(ProtocolError, match="network"):
            await fetch_map(endpoint, key(9).peer_id)


@trio_test
async def test_a_relay_without_a_map() -> None:
    async with running_relay(tls_config()) as relay:
        endpoint = relay.endpoint("127.0.0.1")
        assert await fetch_map(endpoint, NETWORK.peer_id) is None
    with pytest.raises(RelayUnreachable):
        await fetch_map(endpoint, NETWORK.peer_id)


@trio_test
async def test_an_answer_that_never_ends_is_cut() -> None:
    with pytest.raises(ProtocolError, match="above"):
        await fetched_from(OK + bytes(3 * MAX_MAP_BYTES))


@trio_test
async def test_a_forged_map_is_refused() -> None:
    forged = MAP.encoded[:-1] + bytes([MAP.encoded[-1] ^ 1])
    head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(forged)}\r\n\r\n".encode()
    with pytest.raises(ProtocolError, match="signature"):
        await fetched_from(head + forged)


@pytest.mark.parametrize("status", [b"302", b"500"])
@trio_test
async def test_another_status_is_refused(status: bytes) -> None:
    with pytest.raises(ProtocolError, match="status"):
        await fetched_from(OK.replace(b"200", status) + b"abc")


@trio_test
async def test_it_is_asked_for_on_the_way_that_the_settings_name() -> None:
    settings = ClientSettings(environment={"HTTPS_PROXY": "socks5://proxy.example"})
    with pytest.raises(ProxySettingError):
        await fetch_map(ENTRY.endpoint, NETWORK.peer_id, settings)
