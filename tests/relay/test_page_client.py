"""Pages over one kept connection, and every way in which it can end."""

from contextlib import suppress

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from relay.endpoint import Endpoint
from relay.errors import ProtocolError, RelayUnreachable
from relay.page_client import PageClient, parse_head
from relay.pages import PageRequest, PageResponse
from tests.support.relays import PLAINTEXT, key, running_relay, tls_config
from tests.support.trio_test import trio_test

BODY = bytes(range(256)) * 1000


async def blob(request: PageRequest) -> PageResponse:
    assert request.headers["range"] == "bytes=0-"
    return PageResponse(body=BODY, keep_alive=request.query != "once")


async def read(client: PageClient, path: str = "/b/x") -> bytes:
    body = bytearray()
    async with client.get(path, {"Range": "bytes=0-"}) as answer:
        while chunk := await answer.next_chunk():
            body += chunk
    return bytes(body)


@trio_test
async def test_many_pages_come_over_one_connection() -> None:
    async with running_relay(tls_config(), pages={"/b/": blob}) as relay:
        client = PageClient(relay.endpoint("127.0.0.1"))
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(read, client)
        assert await read(client) == BODY
        assert client.n_dialled == 1
        assert await read(client, "/b/x?once") == BODY
        assert await read(client) == BODY
        assert client.n_dialled == 2
        client.close()
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert relay.counters.refused.total() == 0


@trio_test
async def test_an_answer_that_is_left_costs_the_connection_alone() -> None:
    async with running_relay(tls_config(), pages={"/b/": blob}) as relay:
        client = PageClient(relay.endpoint("127.0.0.1"))
        async with client.get("/b/x", {"Range": "bytes=0-"}) as answer:
            await answer.next_chunk()
        with pytest.raises(KeyError):
            async with client.get("/b/x", {"Range": "bytes=0-"}):
                raise KeyError
        assert await read(client) == BODY
        assert client.n_dialled == 3
        client.close()


@trio_test
async def test_b06_another_relay_than_the_pinned_one_is_not_asked() -> None:
    async with running_relay(tls_config(), pages={"/b/": blob}) as relay:
        other = Endpoint(relay.endpoint("127.0.0.1").url, key(77).peer_id)
        with pytest.raises(Exception, match="relay"):
            await read(PageClient(other))


class Server:
    """Answers each connection with the next of `answers`, then closes it."""

    def __init__(self, *answers: bytes) -> None:
        self.answers = list(answers)

    async def __call__(self, stream: trio.SocketStream) -> None:
        # Who reads too much nonsense hangs up before its end.
        async with stream:
            with suppress(trio.BrokenResourceError):
                await stream.receive_some(10_000)
                await stream.send_all(self.answers.pop(0))


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", RelayUnreachable),
        (b"HTTP/1.1 200 OK\r\n", RelayUnreachable),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", RelayUnreachable),
        (b"HTTP/1.1 200 OK\r\n\r\n", ProtocolError),
        (b"SSH-2.0\r\n\r\n", ProtocolError),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 80_000, ProtocolError),
    ],
)
@trio_test
async def test_nonsense_is_an_error_of_the_relay(answer: bytes, error: type) -> None:
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, Server(answer), [listener])
        port = listener.socket.getsockname()[1]
        client = PageClient(Endpoint(f"ws://127.0.0.1:{port}/relay"), PLAINTEXT)
        with pytest.raises(error), trio.fail_after(60):
            await read(client)
        nursery.cancel_scope.cancel()


@trio_test
async def test_a_connection_that_was_closed_meanwhile_is_opened_anew() -> None:
    whole = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\nok"
    async with trio.open_nursery() as nursery:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, Server(whole, whole), [listener])
        port = listener.socket.getsockname()[1]
        client = PageClient(Endpoint(f"ws://127.0.0.1:{port}/relay"), PLAINTEXT)
        assert [await read(client), await read(client)] == [b"ok", b"ok"]
        assert client.n_dialled == 2
        client.close()
        nursery.cancel_scope.cancel()


@given(st.binary(max_size=200))
def test_whatever_a_head_says_is_taken_or_refused(raw: bytes) -> None:
    for each in (raw, b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n" + raw):
        with suppress(ProtocolError):
            assert parse_head(each, "relay").length >= 0
