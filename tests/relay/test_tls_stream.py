"""TLS over memory streams: both ways, its ends, and writes that are cut off."""

import socket
import ssl

import pytest
import trio
import trio.testing

from relay.keys import SigningKey
from relay.streams import TcpStream
from relay.tls import SelfSigned, pinning_context, server_context
from relay.tls_stream import TlsStream
from tests.support.trio_test import trio_test

KEY = SigningKey.from_seed(b"t" * 32)


def _sockets():
    return tuple(TcpStream(end) for end in socket.socketpair())


async def _pair(ends=None):
    left, right = ends or trio.testing.memory_stream_pair()
    client = TlsStream(left, pinning_context(), server_hostname="localhost")
    server = TlsStream(right, server_context(SelfSigned(), KEY), server_side=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.do_handshake)
        nursery.start_soon(server.do_handshake)
    return client, server


async def _read(stream, n_bytes):
    read = b""
    while len(read) < n_bytes:
        chunk = await stream.receive_some()
        assert chunk
        read += chunk
    return read


@trio_test
async def test_bytes_go_both_ways_at_once_and_facts_are_told():
    client, server = await _pair()
    assert client.version() == "TLSv1.3"
    assert client.selected_alpn_protocol() == "http/1.1"
    assert client.peer_certificate() is not None
    assert server.peer_certificate() is None
    there, back = bytes(range(256)) * 1000, b"back" * 40_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, there)
        nursery.start_soon(server.send_all, memoryview(back))
        assert await _read(server, len(there)) == there
        assert await _read(client, len(back)) == back
    await client.send_all(b"")
    await client.wait_send_all_might_not_block()


@trio_test
async def test_the_end_comes_with_goodbye_or_without():
    client, server = await _pair()
    await client.send_all(b"last words")
    await client.aclose()
    assert await server.receive_some(4) == b"last"
    assert await server.receive_some() == b" words"
    assert await server.receive_some() == b""
    client, server = await _pair()
    await client._transport.send_eof()
    assert await server.receive_some() == b""


@trio_test
async def test_what_is_no_tls_breaks_it():
    client, server = await _pair()
    await client._transport.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    with pytest.raises(trio.BrokenResourceError):
        await server.receive_some()


@trio_test
async def test_a_handshake_with_something_else_names_its_cause():
    left, right = trio.testing.memory_stream_pair()
    client = TlsStream(left, pinning_context(), server_hostname="localhost")
    await right.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(trio.BrokenResourceError) as caught:
        await client.do_handshake()
    assert isinstance(caught.value.__cause__, ssl.SSLError)


@trio_test
async def test_nothing_is_written_behind_a_write_that_was_cut_off():
    client, server = await _pair()
    client._transport.send_stream.send_all_hook = trio.sleep_forever
    with trio.move_on_after(0) as scope:
        await client.send_all(b"half of it")
    assert scope.cancelled_caught
    client._transport.send_stream.send_all_hook = None
    with pytest.raises(trio.BrokenResourceError, match="cut off"):
        await client.send_all(b"more")
    await client.aclose()
    await server.aclose()


@trio_test
async def test_a_send_at_once_never_waits_and_its_rest_leaves_first():
    client, server = await _pair(_sockets())
    assert client.send_at_once(b"there")
    assert await server.receive_some() == b"there"
    first = bytes(range(256)) * 8_000
    assert not client.send_at_once(first)
    assert not client.send_at_once(b"more")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, b"")
        assert await _read(server, len(first) + 4) == first + b"more"
    assert client.send_at_once(b"again")
    await client.aclose()
    await server.aclose()


@trio_test
async def test_over_another_transport_nothing_leaves_at_once():
    client, server = await _pair()
    assert not client.send_at_once(b"later")
    await client.send_all(b", this")
    assert await _read(server, 11) == b"later, this"


@trio_test
async def test_a_send_at_once_waits_for_a_write_under_way_and_for_none_that_failed():
    client, server = await _pair(_sockets())
    first = bytes(1_000_000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.send_all, first)
        await trio.testing.wait_all_tasks_blocked()
        assert not client.send_at_once(b"behind it")
        read = await _read(server, len(first) + 9)
    assert read == first + b"behind it"
    await server.aclose()
    with pytest.raises(trio.BrokenResourceError):
        client.send_at_once(bytes(10))
    with pytest.raises(trio.BrokenResourceError, match="cut off"):
        client.send_at_once(bytes(10))
    await client.aclose()


@trio_test
async def test_all_records_that_are_here_are_read_at_once_up_to_the_limit():
    client, server = await _pair()
    for part in (b"one", b"two", b"three"):
        await client.send_all(part)
    assert await server.receive_some(5) == b"onetw"
    assert await server.receive_some() == b"othree"
    await client.send_all(b"last words")
    await client.aclose()
    assert await server.receive_some() == b"last words"
    assert await server.receive_some() == b""
    assert await server.receive_some() == b""


@trio_test
async def test_what_came_before_nonsense_is_read_first():
    client, server = await _pair()
    await client.send_all(b"good")
    await client._transport.send_all(b"\x17\x03\x03\x00\x20" + bytes(32))
    assert await server.receive_some() == b"good"
    for _ in range(2):
        with pytest.raises(trio.BrokenResourceError):
            await server.receive_some()
