"""A peer's connection, end to end."""

import contextlib
from dataclasses import replace
from functools import partial

import pytest
import trio
import trio.testing

from relay import (
    ConnectionLost,
    FrameClass,
    Nacked,
    NackReason,
    PayloadTooLarge,
    PeerGone,
    PeerPresence,
    PresenceState,
    Received,
    RelayUnreachable,
    SendQueueFull,
    connect,
)
from relay.errors import FrameRefused
from tests.support.relays import (
    PLAINTEXT,
    credentials,
    joined,
    key,
    plain_config,
    raw_peer,
    running_relay,
    tls_config,
    wall_us,
)
from tests.support.trio_test import trio_test

A, B = key(1), key(2)


@pytest.mark.parametrize("tls", [False, True])
def test_frames_of_all_sizes_and_classes_arrive(tls: bool) -> None:
    async def main() -> None:
        config = tls_config() if tls else plain_config()
        async with (
            running_relay(config) as relay,
            joined(relay, A) as a,
            joined(relay, B) as b,
        ):
            events = b.events()
            for size in (0, 1, 85, 86, 125, 126, 4096, 65_495, 65_496, 65_535):
                for frame_class in FrameClass:
                    payload = bytes([size % 256]) * size
                    a.send(B.peer_id, payload, frame_class=frame_class, flow=size)
                    event = await anext(events)
                    assert isinstance(event, Received)
                    assert event == Received(
                        A.peer_id, payload, frame_class, size, event.age_ms
                    )

    trio.run(main)


@trio_test
async def test_a_frame_to_nobody_comes_back_as_a_nack() -> None:
    async with running_relay() as relay, joined(relay, A) as a:
        a.send(B.peer_id, b"x", flow=7)
        assert await anext(a.events()) == Nacked(
            B.peer_id, NackReason.NOT_HERE, 1, 7, 1000
        )


@trio_test
async def test_watching() -> None:
    async with running_relay() as relay, joined(relay, A) as a:
        events = a.events()
        a.watch([B.peer_id])
        assert await anext(events) == PeerPresence(((B.peer_id, PresenceState.ABSENT),))
        async with joined(relay, B):
            assert await anext(events) == PeerPresence(
                ((B.peer_id, PresenceState.HERE),)
            )
        event = await anext(events)
        assert isinstance(event, PeerGone)
        assert event.peer == B.peer_id
        a.forget_watches()
        a.send(A.peer_id, b"behind it")
        assert isinstance(await anext(events), Received)
        async with joined(relay, B):
            a.send(A.peer_id, b"nothing between")
            assert isinstance(await anext(events), Received)


@trio_test
async def test_many_can_be_watched_at_once() -> None:
    async with running_relay() as relay, joined(relay, A) as a:
        a.watch(key(number % 250).peer_id for number in range(600))
        states = 0
        async for event in a.events():
            assert isinstance(event, PeerPresence)
            states += len(event.states)
            if states == 600:
                break


@trio_test
async def test_send_never_waits_and_refuses_what_does_not_fit() -> None:
    settings = replace(PLAINTEXT, send_queue_bytes=100_000)
    async with running_relay() as relay, joined(relay, A, settings=settings) as a:
        a.send(B.peer_id, bytes(60_000))
        with pytest.raises(SendQueueFull):
            a.send(B.peer_id, bytes(60_000))
        a.send(B.peer_id, b"control fits", frame_class=FrameClass.CONTROL)
        with pytest.raises(PayloadTooLarge):
            a.send(B.peer_id, bytes(65_536))
        with pytest.raises(FrameRefused):
            a.send(B.peer_id, b"", ttl_ms=70_000)
        await a.wait_writable()
        a.send(B.peer_id, bytes(60_000))


@trio_test
async def test_all_who_wait_for_room_are_woken() -> None:
    async with running_relay() as relay, joined(relay, A) as a:
        with contextlib.suppress(SendQueueFull):
            while True:
                a.send(B.peer_id, bytes(60_000))
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(a.wait_writable)


@trio_test
async def test_the_body_error_comes_out_as_it_is() -> None:
    async with running_relay() as relay:
        with pytest.raises(ZeroDivisionError):
            async with joined(relay, A):
                raise ZeroDivisionError


@trio_test
async def test_what_was_queued_leaves_before_the_connection_closes() -> None:
    async with running_relay() as relay, joined(relay, B) as b:
        async with joined(relay, A) as a:
            for number in range(100):
                a.send(B.peer_id, bytes(1000), flow=number)
        events = b.events()
        received = [await anext(events) for _ in range(100)]
        assert [event.flow for event in received] == list(range(100))


@trio_test
async def test_cancelling_the_owner_still_flushes() -> None:
    async with running_relay() as relay, joined(relay, B) as b:
        with trio.CancelScope() as scope:
            async with joined(relay, A) as a:
                a.send(B.peer_id, b"last words")
                scope.cancel()
                await trio.sleep_forever()
        event = await anext(b.events())
        assert event.payload == b"last words"


@trio_test
async def test_a_relay_that_dies_ends_the_events() -> None:
    async with trio.open_nursery() as nursery:
        started = trio.Event()
        stop = trio.Event()

        async def relay_for_a_while() -> None:
            async with running_relay(plain_config(drain_s=0.2)) as relay:
                nursery.relay = relay
                started.set()
                await stop.wait()

        nursery.start_soon(relay_for_a_while)
        await started.wait()
        async with joined(nursery.relay, A) as a:
            stop.set()
            with pytest.raises(ConnectionLost):
                async for _ in a.events():
                    pass
            with pytest.raises(ConnectionLost):
                a.send(B.peer_id, b"x")
            with pytest.raises(ConnectionLost):
                await a.wait_writable()
            with pytest.raises(ConnectionLost):
                a.watch([B.peer_id])


async def accept_and_be_silent(relay, stream: trio.SocketStream) -> None:
    """A proxy that passes the handshake and then swallows everything."""
    upstream = await trio.open_tcp_stream("127.0.0.1", relay.port)
    swallow = trio.Event()

    async def pump(source, sink) -> None:
        n_bytes = 0
        while chunk := await source.receive_some():
            n_bytes += len(chunk)
            if not swallow.is_set():
                await sink.send_all(chunk)

    async with upstream, trio.open_nursery() as nursery:
        nursery.start_soon(pump, stream, upstream)
        nursery.start_soon(pump, upstream, stream)
        await trio.sleep(1)
        swallow.set()


@trio_test(autojump=True)
async def test_b28_a_half_open_link_is_noticed() -> None:
    async with running_relay() as relay, trio.open_nursery() as nursery:
        [listener] = await nursery.start(
            partial(
                trio.serve_tcp,
                partial(accept_and_be_silent, relay),
                0,
                host="127.0.0.1",
            )
        )
        port = listener.socket.getsockname()[1]
        endpoint = replace(
            relay.endpoint("127.0.0.1"), url=f"ws://127.0.0.1:{port}/relay"
        )
        started = trio.current_time()
        async with joined(endpoint, A) as a:
            with pytest.raises(ConnectionLost, match="silent"):
                await anext(a.events())
        assert 15 <= trio.current_time() - started <= 30
        nursery.cancel_scope.cancel()


@trio_test(autojump=True)
async def test_b28_after_a_suspend_the_link_is_given_up_within_five_seconds() -> None:
    slept_us = 0

    def clock() -> int:
        return wall_us() + int(trio.current_time() * 1e6) + slept_us

    async with running_relay() as relay:
        endpoint = relay.endpoint("127.0.0.1")
        async with connect(
            endpoint, credentials(A), wall_us=clock, settings=PLAINTEXT
        ) as a:
            await trio.sleep(100)
            slept_us = 40_000_000
            resumed_at = trio.current_time()
            with pytest.raises(ConnectionLost, match="suspended"):
                await anext(a.events())
            assert trio.current_time() - resumed_at <= 5


@trio_test(autojump=True)
async def test_a_dial_that_hangs_is_given_up(monkeypatch) -> None:
    async def hang(*_: object, **__: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr("relay.dial.trio.open_tcp_stream", hang)
    async with running_relay() as relay:
        with pytest.raises(RelayUnreachable, match="within 10 s"):
            async with joined(relay, A):
                pass


@trio_test
async def test_an_owner_that_does_not_read_is_not_read_from() -> None:
    """The inbox is bounded: the relay sheds and NACKs, our memory stays."""
    async with running_relay() as relay, joined(relay, B) as b, joined(relay, A) as a:
        n_sent = 0
        nacked = 0
        events = a.events()
        while not nacked and n_sent < 3000:
            try:
                a.send(B.peer_id, bytes(60_000))
                n_sent += 1
            except SendQueueFull:
                await a.wait_writable()
            with trio.move_on_after(0):
                event = await anext(events)
                nacked += event.count if isinstance(event, Nacked) else 0
        assert nacked
        assert b._inbox._n_bytes < 4_400_000


@trio_test
async def test_pings_of_the_relay_are_answered() -> None:
    async with running_relay() as relay, joined(relay, A):
        peer = relay.switch.registry.active[A.peer_id]
        relay.switch.tick(peer.last_read + 20)
        before = peer.last_read
        with trio.fail_after(5):
            while peer.last_read == before:
                await trio.testing.wait_all_tasks_blocked(0.001)


@trio_test
async def test_nonsense_from_the_relay_ends_the_connection() -> None:
    async with running_relay() as relay, joined(relay, A) as a, raw_peer(relay, B):
        relay.switch.registry.active[A.peer_id].outbox.notice(b"\x07nonsense")
        relay.switch.registry.active[A.peer_id].wake()
        with pytest.raises(ConnectionLost, match="breaks the protocol"):
            await anext(a.events())


@trio_test
async def test_a_frame_leaves_in_the_turn_of_its_send_if_nothing_waits() -> None:
    async with running_relay(tls_config()) as relay, joined(relay, A) as a:
        await trio.testing.wait_all_tasks_blocked()
        a.send(A.peer_id, b"at once", flow=1)
        assert not a._queue
        a.send(A.peer_id, bytes(60_000), flow=2)
        a.send(A.peer_id, b"behind it", flow=3)
        assert a._queue
        events = a.events()
        assert [(await anext(events)).flow for _ in range(3)] == [1, 2, 3]


@pytest.mark.parametrize("tls", [False, True])
def test_a_frame_that_the_socket_takes_in_part_is_ended_by_the_writer(tls) -> None:
    async def main() -> None:
        config = tls_config() if tls else plain_config()
        async with running_relay(config) as relay, joined(relay, A) as a:
            await trio.testing.wait_all_tasks_blocked()
            transport = a._transport
            send = transport._send
            transport._send = lambda data: send(memoryview(data)[:100])
            a.send(A.peer_id, bytes(range(200)), flow=1)
            transport._send = send
            assert a._owes
            a.send(A.peer_id, b"next", flow=2)
            events = a.events()
            assert (await anext(events)).payload == bytes(range(200))
            assert (await anext(events)).payload == b"next"

    trio.run(main)


@trio_test
async def test_a_send_that_fails_ends_the_connection() -> None:
    async with running_relay() as relay, joined(relay, A) as a:
        await trio.testing.wait_all_tasks_blocked()
        a._transport.close()
        a.send(A.peer_id, b"lost")
        with pytest.raises(ConnectionLost):
            a.send(A.peer_id, b"refused")
        with pytest.raises(ConnectionLost):
            await a.take_each(print)
