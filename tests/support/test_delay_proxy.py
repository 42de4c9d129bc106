"""The proxy's line, one direction on a clock that jumps, and a real connection."""

import math
import socket
import struct
from functools import partial

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from tests.support.delay_proxy import Delay, DelayLine, carry, serve_delayed
from tests.support.trio_test import trio_test


def test_a_chunk_leaves_after_the_delay():
    line = DelayLine()
    assert line.next_time is None
    line.put(b"ab", 10.0, 0.5)
    assert line.next_time == 10.5
    assert line.take(10.4) == (b"", False)
    assert line.take(10.5) == (b"ab", False)
    assert line.next_time is None


def test_a_shorter_delay_overtakes_nothing():
    line = DelayLine()
    line.put(b"slow", 0.0, 1.0)
    line.put(b"fast", 0.1, 0.0)
    line.put(b"", 0.2, 0.0)
    assert line.take(0.9) == (b"", False)
    assert line.take(1.0) == (b"slowfast", True)


def test_room_is_given_back_once_sent():
    line = DelayLine(max_bytes=4)
    line.put(b"abcd", 0.0, 0.0)
    assert line.room == 0
    assert line.take(0.0) == (b"abcd", False)
    assert line.room == 0
    line.sent(4)
    assert line.room == 4


@given(
    st.lists(
        st.tuples(st.binary(max_size=4), st.floats(0, 1), st.floats(0, 2)), max_size=30
    )
)
def test_bytes_come_out_in_order_and_each_as_late_as_it_must(steps):
    line, now, latest = DelayLine(), 0.0, -math.inf
    for chunk, pause, delay in steps:
        now += pause
        latest = max(latest, now + delay)
        line.put(chunk, now, delay)
    early, _ = line.take(math.nextafter(latest, -math.inf))
    late, ended = line.take(latest)
    assert early + late == b"".join(chunk for chunk, _, _ in steps)
    assert ended == bool(steps and not steps[-1][0])


async def arrivals(stream: trio.abc.ReceiveStream, n_bytes: int) -> list[tuple]:
    """Return what comes as (time since the start, bytes), to the end."""
    start = trio.current_time()
    found = []
    while part := await stream.receive_some(n_bytes):
        found.append((round(trio.current_time() - start, 6), bytes(part)))
    return found


@trio_test(autojump=True)
async def test_a_direction_keeps_distances_and_ends_with_its_source():
    near, source = trio.testing.memory_stream_pair()
    sink, far = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(carry, source, sink, Delay(one_way_s=0.05))

        async def send() -> None:
            await near.send_all(b"one")
            await trio.sleep(0.02)
            await near.send_all(b"two")
            await near.send_eof()

        nursery.start_soon(send)
        assert await arrivals(far, 100) == [(0.05, b"one"), (0.07, b"two")]


@trio_test(autojump=True)
async def test_a_full_line_reads_no_more():
    near, source = trio.testing.memory_stream_pair()
    sink, far = trio.testing.memory_stream_pair()
    await near.send_all(bytes(250))
    await near.send_eof()
    async with trio.open_nursery() as nursery:
        delay = Delay(one_way_s=1.0)
        nursery.start_soon(partial(carry, source, sink, delay, max_bytes=100))
        found = await arrivals(far, 1000)
    assert [(at, len(part)) for at, part in found] == [(1, 100), (2, 100), (3, 50)]


@trio_test
async def test_a_connection_goes_both_ways_and_ends_on_both_sides():
    async def shout(stream: trio.SocketStream) -> None:
        while part := await stream.receive_some():
            await stream.send_all(part.upper())

    async with trio.open_nursery() as nursery:
        served = await nursery.start(
            partial(trio.serve_tcp, shout, 0, host="127.0.0.1")
        )
        target = served[0].socket.getsockname()[1]
        delay = Delay(one_way_s=0.002)
        port = await nursery.start(serve_delayed, "127.0.0.1", target, delay)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            start = trio.current_time()
            await stream.send_all(b"hello")
            assert await stream.receive_some() == b"HELLO"
            assert trio.current_time() - start >= 0.004
            await stream.send_eof()
            assert await stream.receive_some() == b""
        nursery.cancel_scope.cancel()


@trio_test
async def test_nobody_behind_it_closes_the_connection():
    (gone,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    target = gone.socket.getsockname()[1]
    await gone.aclose()
    async with trio.open_nursery() as nursery:
        port = await nursery.start(serve_delayed, "127.0.0.1", target, Delay())
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            with trio.fail_after(5):
                assert await ends(stream)
        nursery.cancel_scope.cancel()


async def ends(stream: trio.SocketStream) -> bool:
    """Say whether the other side is gone, cleanly or not."""
    try:
        return await stream.receive_some() == b""
    except trio.BrokenResourceError:
        return True


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
        port = await nursery.start(serve_delayed, "127.0.0.1", target, Delay())
        near = await trio.open_tcp_stream("127.0.0.1", port)
        await near.send_all(b"x")
        await is_open.wait()
        far = accepted[0]
        assert await far.receive_some() == b"x"
        breaks, other = (near, far) if side == "near" else (far, near)
        breaks.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        await breaks.aclose()  # a reset, not an end
        with trio.fail_after(5):
            assert await ends(other)
        await other.aclose()
        nursery.cancel_scope.cancel()
