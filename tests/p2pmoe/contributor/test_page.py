"""The page's server: real sockets on loopback, hostile clients among them."""

import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.contributor import page as module
from p2pmoe.contributor.page import PageAddress, open_page, serve_page
from p2pmoe.contributor.page_rules import Ask
from relay.pages import PageResponse
from tests.support.trio_test import trio_test


async def echo(ask: Ask) -> PageResponse:
    if ask.path == "/bug":
        raise ZeroDivisionError
    text = f"{ask.method} {ask.path} {ask.headers.get('x', '')} {ask.body.decode()}"
    return PageResponse(body=text.encode())


@asynccontextmanager
async def serving(tmp_path) -> AsyncIterator[PageAddress]:
    address = open_page(tmp_path / "page.key", 0)
    with address.bound:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve_page, address, echo)
            yield address
            nursery.cancel_scope.cancel()


async def say(address: PageAddress, raw: bytes) -> bytes:
    port = address.bound.getsockname()[1]
    answer = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        with contextlib.suppress(trio.BrokenResourceError):  # it read no further
            await stream.send_all(raw)
            async for part in stream:
                answer += bytes(part)
    return answer


@trio_test
async def test_a_request_is_answered_and_the_connection_closed(tmp_path):
    async with serving(tmp_path) as address:
        assert address.url.startswith("http://127.0.0.1:")
        assert address.url.endswith(f"/#{address.token}")
        got = await say(address, b"GET /a HTTP/1.1\r\nHost: h\r\nX: y\r\n\r\n")
        head, _, body = got.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert b"Cache-Control: no-store" in head
        assert b"nosniff" in head
        assert body == b"GET /a y "
        sent = b"POST /b HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
        assert (await say(address, sent)).endswith(b"POST /b  abc")
        head = await say(address, b"HEAD /a HTTP/1.1\r\nHost: h\r\n\r\n")
        assert head.endswith(b"\r\n\r\n")


@trio_test
async def test_nonsense_length_and_bugs_end_nothing(tmp_path, caplog):
    async with serving(tmp_path) as address:
        for noise in (b"\x16\x03\x01 TLS\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\r\n"):
            assert await say(address, noise + b"\0" * 9000) == b""
        long = b"GET / HTTP/1.1\r\nHost: h\r\nX: " + b"y" * 20_000 + b"\r\n\r\n"
        assert await say(address, long) == b""
        big = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n"
        assert await say(address, big + b"z" * 40_000) == b""
        bug = await say(address, b"GET /bug HTTP/1.1\r\nHost: h\r\n\r\n")
        assert b" 500 " in bug
        assert b"ZeroDivision" not in bug
        assert b" 200 " in await say(address, b"GET / HTTP/1.1\r\nHost: h\r\n\r\n")
    assert "ZeroDivisionError" in caplog.text


@trio_test
async def test_who_says_nothing_is_left_after_a_while(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_WITHIN_S", 0.01)
    async with serving(tmp_path) as address:
        assert await say(address, b"GET /") == b""


@given(
    noise=st.binary(max_size=200)
    | st.tuples(
        st.sampled_from(["GET", "POST", "BREW", "G\tET"]),
        st.text(max_size=20),
        st.text(max_size=40),
    ).map(
        lambda parts: (
            f"{parts[0]} /{parts[1]} HTTP/1.1\r\nHost: h\r\n{parts[2]}".encode()
        )
    )
)
def test_no_bytes_end_more_than_their_connection(noise):
    async def ask() -> bytes:
        ours, theirs = trio.testing.memory_stream_pair()
        await ours.send_all(noise)
        await ours.send_eof()
        await module._serve_one(theirs, echo)
        await theirs.aclose()
        return b"".join([bytes(part) async for part in ours])

    answer = trio.run(ask)
    assert answer == b"" or answer.startswith(b"HTTP/1.1 ")


def test_a_port_that_is_taken_is_no_reason_not_to_have_a_page(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        address = open_page(tmp_path / "page.key", port)
        with address.bound:
            assert address.bound.getsockname()[0] == "127.0.0.1"
            assert address.bound.getsockname()[1] != port
