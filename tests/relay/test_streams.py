"""TCP streams and the wake-up."""

import socket

import pytest
import trio
import trio.testing

from relay.streams import TcpStream, Wakeup, WriteStalled
from tests.support.trio_test import trio_test


def pair() -> tuple[TcpStream, TcpStream]:
    a, b = socket.socketpair()
    return TcpStream(a), TcpStream(b)


@trio_test
async def test_bytes_pass_both_ways_and_the_end_is_seen() -> None:
    a, b = pair()
    await a.send_all(b"there")
    assert await b.receive_some() == b"there"
    await b.send_all(memoryview(b"back"))
    assert await a.receive_some(2) == b"ba"
    assert await a.receive_some() == b"ck"
    await a.send_eof()
    assert await b.receive_some() == b""
    a.close()
    b.close()


@trio_test
async def test_the_first_byte_can_be_looked_at_and_stays() -> None:
    a, b = pair()
    await a.send_all(b"there")
    assert await b.peek() == b"t"
    assert await b.receive_some() == b"there"
    a.close()
    assert await b.peek() == b""
    b.close()
    with pytest.raises(trio.ClosedResourceError):
        await b.peek()


@trio_test
async def test_more_than_the_kernel_takes_at_once_arrives_whole() -> None:
    a, b = pair()
    payload = bytes(range(256)) * 20_000
    received = bytearray()

    async def read() -> None:
        while len(received) < len(payload):
            received.extend(await b.receive_some())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await a.send_all(payload)
    assert received == payload
    a.close()
    b.close()


@trio_test(autojump=True)
async def test_a_write_that_does_not_move_for_two_seconds_fails() -> None:
    a, b = pair()
    started = trio.current_time()
    with pytest.raises(WriteStalled, match="2 s"):
        await a.send_all(bytes(10_000_000))
    assert trio.current_time() - started == pytest.approx(2.0)
    a.close()
    b.close()


@trio_test(autojump=True)
async def test_a_slow_reader_that_moves_is_waited_for() -> None:
    a, b = pair()

    async def read_slowly() -> None:
        for _ in range(20):
            await trio.sleep(1.5)
            await b.receive_some(200_000)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read_slowly)
        with pytest.raises(WriteStalled):
            await a.send_all(bytes(100_000_000))
        # 20 reads of 1.5 s were waited for; only then did it stall.
        assert trio.current_time() >= 30
    a.close()
    b.close()


@trio_test
async def test_a_closed_stream_says_so_and_wakes_who_waits() -> None:
    a, b = pair()

    async def wait_for_close() -> None:
        with pytest.raises(trio.ClosedResourceError):
            await a.receive_some()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait_for_close)
        await trio.testing.wait_all_tasks_blocked()
        a.close()
    with pytest.raises(trio.ClosedResourceError):
        await a.send_all(b"x")
    with pytest.raises(trio.ClosedResourceError):
        await a.wait_send_all_might_not_block()
    assert a.is_closed
    await b.wait_send_all_might_not_block()
    with pytest.raises(trio.BrokenResourceError):
        await b.send_all(b"x")
    await b.aclose()


@trio_test
async def test_tcp_options_and_the_other_ends_address() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(listener.getsockname())
    accepted, _ = listener.accept()
    stream = TcpStream(accepted)
    assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
    timeout = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
    assert timeout == 15_000
    host, port = client.getsockname()
    assert stream.remote_address == f"{host}:{port}"
    for each in (listener, client):
        each.close()
    await stream.aclose()
    assert stream.remote_address == ""
    a, b = pair()
    assert a.remote_address == ""
    a.close()
    b.close()


@trio_test
async def test_a_wake_up_is_not_lost_and_wakes_once() -> None:
    wakeup = Wakeup()
    wakeup.set()
    wakeup.set()
    await wakeup.wait()
    with trio.move_on_after(0.01) as scope:
        await wakeup.wait()
    assert scope.cancelled_caught
    woken: list[int] = []

    async def wait() -> None:
        await wakeup.wait()
        woken.append(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        wakeup.set()
    assert woken == [1]


@trio_test
async def test_a_send_at_once_never_waits_and_its_rest_leaves_first() -> None:
    a, b = pair()
    assert a.send_at_once(b"there")
    assert await b.receive_some() == b"there"
    first = bytes(range(256)) * 8_000
    assert not a.send_at_once(first)
    assert not a.send_at_once(b"more")  # waits behind the rest
    received = bytearray()

    async def read() -> None:
        while len(received) < len(first) + 7:
            received.extend(await b.receive_some())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await a.send_all(b"end")
    assert received == first + b"moreend"
    assert a.send_at_once(b"again")
    b.close()
    with pytest.raises(trio.BrokenResourceError):
        a.send_at_once(b"x")
    a.close()
    with pytest.raises(trio.ClosedResourceError):
        a.send_at_once(b"x")


@trio_test
async def test_a_wakeup_is_awaited_until_it_is_set() -> None:
    wakeup = Wakeup()
    assert not wakeup.is_awaited
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wakeup.wait)
        await trio.testing.wait_all_tasks_blocked()
        assert wakeup.is_awaited
        wakeup.set()
        assert not wakeup.is_awaited
