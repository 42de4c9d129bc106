"""The proxy: one direction on a clock that jumps, and real connections."""

import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
import trio.testing

from tests.support.injector.conditions import NEAR, Link, Path, distance
from tests.support.injector.line import Line, Wire
from tests.support.injector.proxy import carry, injected
from tests.support.trio_test import trio_test


async def arrivals(stream: trio.abc.ReceiveStream, n_bytes: int) -> list[tuple]:
    """Return what comes as (time since the start, bytes), to the end."""
    start = trio.current_time()
    found = []
    while part := await stream.receive_some(n_bytes):
        found.append((round(trio.current_time() - start, 6), bytes(part)))
    return found


def fresh_line(path: Path) -> Line:
    now = trio.current_time()
    return Line(Wire(path, now), now)


@trio_test(autojump=True)
async def test_a_direction_keeps_distances_and_ends_with_its_source():
    near, source = trio.testing.memory_stream_pair()
    sink, far = trio.testing.memory_stream_pair()
    line = fresh_line(Path(delay_s=0.05))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(carry, source, sink, line, trio.Event)

        async def send() -> None:
            await near.send_all(b"one")
            await trio.sleep(0.02)
            await near.send_all(b"two")
            await near.send_eof()

        nursery.start_soon(send)
        assert await arrivals(far, 100) == [(0.05, b"one"), (0.07, b"two")]


@trio_test(autojump=True)
async def test_a_bandwidth_is_kept_and_a_full_line_reads_no_more():
    near, source = trio.testing.memory_stream_pair()
    sink, far = trio.testing.memory_stream_pair()
    await near.send_all(bytes(100_000))
    await near.send_eof()
    async with trio.open_nursery() as nursery:
        line = fresh_line(Path(bytes_s=100_000.0))
        nursery.start_soon(carry, source, sink, line, trio.Event)
        found = await arrivals(far, 100_000)
    n_bytes = 0
    for at, part in found:
        n_bytes += len(part)
        assert at == pytest.approx(n_bytes / 100_000, abs=1e-3)
    assert n_bytes == 100_000


@asynccontextmanager
async def echo() -> AsyncIterator[int]:
    """Answer in capitals; yields the port."""

    async def shout(stream: trio.SocketStream) -> None:
        try:
            while part := await stream.receive_some():
                await stream.send_all(part.upper())
        except trio.BrokenResourceError:
            return

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_tcp, shout, 0, host="127.0.0.1")
        served = await nursery.start(serve)
        yield served[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def ends(stream: trio.SocketStream) -> bool:
    """Say whether the other side is gone, cleanly or not."""
    try:
        return await stream.receive_some() == b""
    except trio.BrokenResourceError:
        return True


@trio_test
async def test_a_connection_goes_both_ways_and_ends_on_both_sides():
    async with (
        echo() as target,
        injected("127.0.0.1", target, distance(0.002)) as injector,
        await trio.open_tcp_stream("127.0.0.1", injector.port) as stream,
    ):
        start = trio.current_time()
        await stream.send_all(b"hello")
        assert await stream.receive_some() == b"HELLO"
        assert trio.current_time() - start >= 0.004
        await stream.send_eof()
        assert await stream.receive_some() == b""


@trio_test
async def test_a_killed_connection_is_reset_behind_its_last_byte():
    link = Link(down=Path(kill_after_bytes=3))
    async with (
        echo() as target,
        injected("127.0.0.1", target, link) as injector,
        await trio.open_tcp_stream("127.0.0.1", injector.port) as stream,
    ):
        await stream.send_all(b"ab")
        assert await stream.receive_some() == b"AB"
        await stream.send_all(b"cd")
        with trio.fail_after(5):
            assert await stream.receive_some() == b"C"
            with pytest.raises(trio.BrokenResourceError):
                await stream.receive_some()


@trio_test
async def test_a_change_reaches_open_connections():
    async with (
        echo() as target,
        injected("127.0.0.1", target) as injector,
        await trio.open_tcp_stream("127.0.0.1", injector.port) as stream,
    ):
        await stream.send_all(b"a")
        assert await stream.receive_some() == b"A"
        injector.change(Link(up=Path(kill_at_s=0.0)))
        with trio.fail_after(5):
            assert await ends(stream)
        injector.change(NEAR)
        async with await trio.open_tcp_stream("127.0.0.1", injector.port) as again:
            await again.send_all(b"b")
            assert await again.receive_some() == b"B"


@trio_test
async def test_nobody_behind_it_closes_the_connection():
    (gone,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    target = gone.socket.getsockname()[1]
    await gone.aclose()
    async with (
        injected("127.0.0.1", target) as injector,
        await trio.open_tcp_stream("127.0.0.1", injector.port) as stream,
    ):
        with trio.fail_after(5):
            assert await ends(stream)


@pytest.mark.parametrize("side", ["near", "far"])
@trio_test
async def test_a_broken_side_closes_the_other(side: str):
    accepted: list[trio.SocketStream] = []
    is_open = trio.Event()

    async def take(stream: trio.SocketStream) -> None:
        accepted.append(stream)
        is_open.set()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        served = await nursery.start(partial(trio.serve_tcp, take, 0, host="127.0.0.1"))
        target = served[0].socket.getsockname()[1]
        async with injected("127.0.0.1", target) as injector:
            near = await trio.open_tcp_stream("127.0.0.1", injector.port)
            await near.send_all(b"x")
            await is_open.wait()
            far = accepted[0]
            assert await far.receive_some() == b"x"
            breaks, other = (near, far) if side == "near" else (far, near)
            linger = struct.pack("ii", 1, 0)
            breaks.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            await breaks.aclose()  # a reset, not an end
            with trio.fail_after(5):
                assert await ends(other)
            await other.aclose()
        nursery.cancel_scope.cancel()
