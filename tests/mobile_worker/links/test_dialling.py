"""Listening and dialling: addresses, greetings, refusals."""

import functools
import socket
import threading

import pytest
import trio

from mobile_worker.errors import ListenError
from mobile_worker.links import dialling
from mobile_worker.links.dialling import (
    accept_links,
    addresses_of,
    dial_any,
    may_dial,
    open_listener,
    split_address,
)
from tests.support.nodes import LOCAL, identity, until
from tests.support.trio_test import trio_test

ONE, OTHER = identity(1).peer_id, identity(2).peer_id


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("127.0.0.1:7", ("127.0.0.1", 7)),
        ("[::1]:65535", ("::1", 65_535)),
        ("hub.example:0", ("hub.example", 0)),
    ],
)
def test_addresses(address, parts):
    assert split_address(address) == parts


@pytest.mark.parametrize(
    "address", ["", "7400", ":7", "a:", "a:b", "a:65536", "a:-1", "a:٣"]
)
def test_what_is_no_address(address):
    with pytest.raises(ListenError, match="no such address"):
        split_address(address)


@trio_test
async def test_an_address_in_use_is_refused_in_one_line():
    [listener] = await open_listener(LOCAL)
    port = listener.socket.getsockname()[1]
    with pytest.raises(ListenError, match="cannot listen on"):
        await open_listener(f"127.0.0.1:{port}")
    await listener.aclose()


@trio_test
async def test_what_is_told_of_a_listener_on_all_addresses():
    [listener] = await open_listener("0.0.0.0:0")
    port = listener.socket.getsockname()[1]
    assert addresses_of([listener], "192.0.2.7:999") == (f"192.0.2.7:{port}",)
    assert addresses_of([listener], "[2001:db8::1]:9") == (f"[2001:db8::1]:{port}",)
    assert addresses_of([listener], "") == ()
    await listener.aclose()
    [listener] = await open_listener(LOCAL)
    port = listener.socket.getsockname()[1]
    assert addresses_of([listener], "192.0.2.7:9") == (f"127.0.0.1:{port}",)
    await listener.aclose()


@trio_test
async def test_the_first_address_where_the_peer_answers_is_taken():
    taken = []
    listeners = await open_listener(LOCAL)
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            accept_links,
            listeners,
            ONE,
            lambda stream, peer: taken.append((stream, peer)),
        )
        addresses = ("nonsense", "127.0.0.1:1", f"127.0.0.1:{port}")
        stream = await dial_any(addresses, OTHER, ONE, is_local=True)
        assert stream is not None
        await trio.testing.wait_all_tasks_blocked()
        assert [peer for _, peer in taken] == [OTHER]
        await stream.aclose()
        await taken[0][0].aclose()
        assert await dial_any(addresses, OTHER, OTHER, is_local=True) is None
        assert len(taken) == 1
        nursery.cancel_scope.cancel()


async def read_or_reset(stream):
    try:
        return await stream.receive_some(100)
    except trio.BrokenResourceError:
        return b""


@trio_test(autojump=True)
async def test_b25_nonsense_and_silence_before_the_greeting():
    taken = []
    listeners = await open_listener(LOCAL)
    port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            accept_links, listeners, ONE, lambda stream, peer: taken.append(peer)
        )
        weak = b"P2PMOED1" + bytes(32) + ONE
        for greeting in (b"GET / HTTP/1.1\r\n\r\n" * 9, b"\x80\x04" * 36, weak, b""):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(greeting)
            assert await read_or_reset(stream) == b""
            await stream.aclose()
        nursery.cancel_scope.cancel()
    assert taken == []


@pytest.mark.parametrize(
    "host",
    ["a..b", "a" * 300, "\0", "a\0b", "\u2603" * 70, "\ud800", "fe80::1%x", "[::1"],
)
def test_whatever_a_peer_calls_its_address_is_no_more_than_no_link(host):
    async def main():
        with trio.move_on_after(5):
            return await dial_any([f"{host}:1"], OTHER, ONE, is_local=True)

    assert trio.run(main) is None


@pytest.mark.parametrize(
    ("ip", "port", "is_local", "expected"),
    [
        ("192.0.2.7", 7400, False, True),
        ("192.0.2.7", 443, False, True),
        ("192.0.2.7", 22, True, False),
        ("10.1.2.3", 7400, False, True),
        ("127.0.0.1", 7400, True, True),
        ("127.0.0.1", 7400, False, False),
        ("127.9.9.9", 6379, False, False),
        ("::1", 7400, False, False),
        ("::ffff:127.0.0.1", 7400, False, False),
        ("127.0.0.1", 80, True, False),
        ("169.254.169.254", 80, True, False),
        ("169.254.169.254", 7400, True, False),
        ("fe80::1%eth0", 7400, True, False),
        ("224.0.0.1", 7400, False, False),
        ("::", 7400, True, False),
        ("2001:db8::1", 7400, False, True),
        ("nonsense", 7400, True, False),
    ],
)
def test_where_a_peers_word_is_enough(ip, port, is_local, expected):
    assert may_dial(ip, port, is_local=is_local) is expected


@trio_test
async def test_names_that_take_long_keep_no_other_work_from_threads(monkeypatch):
    asked, answer = [], threading.Event()
    really = socket.getaddrinfo

    def look_up(host, *args, **kinds):
        if not host.endswith(".example") or kinds.get("flags"):
            return really(host, *args, **kinds)
        asked.append(host)
        answer.wait(20)
        raise socket.gaierror("no such name")

    monkeypatch.setattr(dialling.socket, "getaddrinfo", look_up)
    [listener] = await open_listener(LOCAL)
    async with trio.open_nursery() as nursery:
        for number in range(60):
            dial = functools.partial(dial_any, is_local=True)
            nursery.start_soon(dial, [f"{number}.example:7400"], ONE, OTHER)
        await until(lambda: len(asked) == dialling._MAX_RESOLVERS)
        threads = trio.to_thread.current_default_thread_limiter()
        assert threads.borrowed_tokens == 0
        with trio.fail_after(10):  # nor is a number looked up
            _, port = listener.socket.getsockname()
            stream = await dialling._connect(f"127.0.0.1:{port}", is_local=True)
            await stream.aclose()
        answer.set()
        nursery.cancel_scope.cancel()
    await listener.aclose()
