"""Admitted connections: nonsense, slow readers, floods, and torn writes."""

import contextlib
import logging
import random
import resource
import struct
import zlib

import pytest
import trio
import trio.testing

from relay import (
    ConnectionLost,
    FrameClass,
    GoneReason,
    Nacked,
    PeerGone,
    Received,
    RelayConnection,
    RelayStatus,
    Role,
    SendQueueFull,
    StatusCode,
)
from relay.dial import dial
from relay.frame_types import Gone, Send
from relay.frames import encode_frame
from relay.joining import join
from relay.keys import PeerId
from relay.streams import TcpStream
from tests.support.relays import (
    credentials,
    joined,
    key,
    raw_peer,
    running_relay,
    tls_config,
    wall_us,
)
from tests.support.trio_test import trio_test

A, B, C = (key(number) for number in (1, 2, 3))


def send_frame(destination: PeerId, payload: bytes = b"payload") -> bytes:
    return encode_frame(
        Send(
            destination=destination,
            payload=payload,
            frame_class=FrameClass.INTERACTIVE,
            flow=1,
            ttl_ms=0,
            nack=True,
        )
    )


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (b"\x06nonsense", 1002),
        (b"\x7f", 1002),
        (b"", 1008),
        (b"\x10short", 1008),
        (b"\x01" + bytes(9), 1008),
        (encode_frame(Gone(peer=B.peer_id, reason=GoneReason.SLOW)) * 2, 1008),
        (encode_frame(Gone(peer=B.peer_id, reason=GoneReason.SLOW)), 1008),
        (b"\x14\xff\xff", 1008),
        (bytes(73 * 1024), 1009),
    ],
)
def test_b25_nonsense_closes_one_connection_with_one_line(
    message, code, caplog
) -> None:
    caplog.set_level(logging.INFO)

    async def main() -> None:
        async with running_relay() as relay, joined(relay, B) as other:
            async with raw_peer(relay, A) as raw:
                await raw.send(message)
                assert await raw.close_code() == code
            other.send(B.peer_id, b"the relay lives")
            assert isinstance(await anext(other.events()), Received)
            lines = [r for r in caplog.records if r.name == "p2pmoe.relay"]
            assert len(lines) == 1
            assert A.peer_id.hex()[:8] in lines[0].getMessage()

    trio.run(main)


@trio_test
async def test_b25_text_and_fragments_are_refused() -> None:
    async with running_relay() as relay:
        async with raw_peer(relay, A) as raw:
            raw.protocol.send_text(b"hello")
            await raw.flush()
            assert await raw.close_code() == 1003
        async with raw_peer(relay, A) as raw:
            raw.protocol.send_binary(send_frame(B.peer_id)[:10], fin=False)
            raw.protocol.send_continuation(send_frame(B.peer_id)[10:], fin=True)
            await raw.flush()
            assert await raw.close_code() == 1002
        async with raw_peer(relay, A) as raw:
            await raw.stream.send_all(b"\x82\x03abc")  # not masked
            assert await raw.close_code() == 1002
    assert relay.counters.accepted == 0


@pytest.mark.parametrize(
    "n_messages", [5_000, pytest.param(100_000, marks=pytest.mark.slow)]
)
def test_b25_mutated_messages_leave_the_relay_up(n_messages: int) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    trio.run(send_mutated, n_messages)
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb
    assert grown_kb < 50_000


async def send_mutated(n_messages: int) -> None:
    choose = random.Random(7)
    good = [send_frame(B.peer_id), b"\x01" + bytes(8), b"\x14\x00\x01" + B.peer_id]
    n_sent = 0
    async with running_relay() as relay:
        while n_sent < n_messages:
            async with raw_peer(relay, A) as raw:
                with contextlib.suppress(trio.BrokenResourceError):
                    for _ in range(500):
                        message = bytearray(choose.choice(good))
                        message[choose.randrange(min(8, len(message)))] ^= (
                            1 << choose.randrange(8)
                        )
                        raw.protocol.send_binary(bytes(message))
                        n_sent += 1
                    await raw.flush()
                    await raw.close_code()
        async with joined(relay, A) as connection:
            connection.send(A.peer_id, b"alive")
            assert isinstance(await anext(connection.events()), Received)
        assert relay.counters.refused["internal error"] == 0


@trio_test
async def test_pings_of_the_websocket_layer_are_answered() -> None:
    async with running_relay() as relay, raw_peer(relay, A) as raw:
        raw.protocol.send_ping(b"hello")
        await raw.flush()
        frame = await raw.frame()
        assert frame is not None
        assert frame.data == b"hello"


@trio_test(autojump=True)
async def test_b29_a_stuck_reader_never_slows_others() -> None:
    """The send freeze: C stops reading; A and B do not notice, C is cut.

    On a clock that stands while anybody has something to do, as a machine that is busy
    with something else lets everybody wait.
    """
    async with (
        running_relay() as relay,
        joined(relay, A) as a,
        joined(relay, B) as b,
        raw_peer(relay, C),
    ):
        events_a, events_b = a.events(), b.events()
        started = trio.current_time()
        gone: PeerGone | None = None
        slowest = 0.0
        while gone is None:
            with contextlib.suppress(SendQueueFull):
                for _ in range(8):
                    a.send(C.peer_id, bytes(60_000), ttl_ms=500)
            sent_at = trio.current_time()
            b.send(B.peer_id, b"ping")
            await anext(events_b)
            slowest = max(slowest, trio.current_time() - sent_at)
            with trio.move_on_after(0.02):
                while gone is None:
                    event = await anext(events_a)
                    gone = event if isinstance(event, PeerGone) else None
            assert trio.current_time() - started < 5
        assert gone == PeerGone(C.peer_id, GoneReason.SLOW)
        assert slowest < 0.5
        assert relay.counters.left[GoneReason.SLOW] == 1
        assert relay.switch.budget.n_bytes < 1_000_000


@trio_test
async def test_b30_a_stuck_reader_behind_tls_is_cut_too() -> None:
    async with running_relay(tls_config()) as relay, joined(relay, A) as a:
        endpoint = relay.endpoint("127.0.0.1")
        dialled = await dial(endpoint)
        await join(dialled.stream, endpoint, credentials(C), wall_us)
        events = a.events()
        with trio.fail_after(60):
            while True:
                with contextlib.suppress(SendQueueFull):
                    a.send(C.peer_id, bytes(60_000), ttl_ms=500)
                with trio.move_on_after(0.01):
                    if isinstance(event := await anext(events), PeerGone):
                        break
        assert event == PeerGone(C.peer_id, GoneReason.SLOW)
        dialled.transport.close()


async def flood(connection: RelayConnection, to: PeerId, n_frames: int) -> None:
    for flow in range(n_frames):
        while True:
            try:
                connection.send(to, bytes(65_000), flow=flow, ttl_ms=60_000)
            except SendQueueFull:
                await connection.wait_writable()
            else:
                break


async def count(connection: RelayConnection, n_frames: int) -> None:
    """Read until each of the other side's frames has a fate: here, or a NACK there."""
    settled = 0
    async for event in connection.events():
        if isinstance(event, Received | Nacked):
            settled += event.count if isinstance(event, Nacked) else 1
        if settled >= n_frames:
            return


@pytest.mark.parametrize("tls", [False, True])
def test_duplex_flood_of_64_kib_both_ways_does_not_freeze(tls: bool) -> None:
    n_frames = 300

    async def main() -> None:
        config = tls_config() if tls else None
        async with (
            running_relay(config) as relay,
            joined(relay, A) as a,
            joined(relay, B) as b,
        ):
            with trio.fail_after(120):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(flood, a, B.peer_id, n_frames)
                    nursery.start_soon(flood, b, A.peer_id, n_frames)
                    nursery.start_soon(count, a, n_frames // 2)
                    nursery.start_soon(count, b, n_frames // 2)
            counters = relay.counters
            assert counters.delivered >= n_frames // 2

    trio.run(main)


@trio_test
async def test_a_peer_above_its_rate_is_slowed_and_told() -> None:
    async with (
        running_relay() as relay,
        joined(relay, A, role=Role.WORKER) as a,
        joined(relay, B) as b,
    ):
        started = trio.current_time()
        for _ in range(60):
            a.send(B.peer_id, bytes(60_000))
        received = 0
        async for event in b.events():
            received += isinstance(event, Received)
            if received == 60:
                break
        # 3.6 MB at 8 MiB/s with a burst of 2 MiB.
        assert trio.current_time() - started > 0.1
        event = await anext(a.events())
        assert isinstance(event, RelayStatus)
        assert event.code is StatusCode.RATE_LIMITED


def sealed(number: int, size: int) -> bytes:
    body = struct.pack("!I", number) + random.Random(number).randbytes(size)
    return struct.pack("!I", zlib.crc32(body)) + body


def is_whole(payload: bytes) -> bool:
    return zlib.crc32(payload[4:]) == struct.unpack("!I", payload[:4])[0]


@trio_test
async def test_b30_a_thousand_cancels_tear_no_message() -> None:
    """Senders are cancelled at random moments while their queue is full."""
    choose = random.Random(30)
    torn: list[int] = []
    received = 0

    async def read(connection: RelayConnection) -> None:
        nonlocal received
        async for event in connection.events():
            if isinstance(event, Received):
                received += 1
                if not is_whole(event.payload):
                    torn.append(received)

    async def keep_sending(connection: RelayConnection, first: int) -> None:
        for number in range(first, first + 50):
            try:
                connection.send(B.peer_id, sealed(number, choose.randrange(60_000)))
            except SendQueueFull:
                await connection.wait_writable()
            await trio.lowlevel.checkpoint()

    async with running_relay() as relay, joined(relay, B) as b, joined(relay, A) as a:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, b)
            for number in range(1000):
                with trio.move_on_after(choose.random() * 0.003):
                    await keep_sending(a, number * 50)
            await a.wait_writable()
            nursery.cancel_scope.cancel()
        assert received > 1000
        assert not torn
        assert relay.counters.left.total() == 0


class Gauge:
    """A transport that fails at a random byte, and counts what is written after."""

    def __init__(self, stream, fail_after: int) -> None:
        self.left = fail_after
        self.n_after_failure = 0
        self._send = stream._sock.send
        self.failed = False

    def send(self, data) -> int:
        if self.failed:
            self.n_after_failure += 1
            raise OSError(32, "Broken pipe")
        if len(data) > self.left:
            self.failed = True
            part = self._send(memoryview(data)[: self.left]) if self.left else 0
            assert part <= self.left
            raise OSError(110, "Connection timed out")
        n = self._send(data)
        self.left -= n
        return n


@trio_test
async def test_b30_nothing_is_written_after_a_failed_write(monkeypatch) -> None:
    """Connections are cut at random bytes; what arrived is whole, and no more comes."""
    choose = random.Random(31)
    gauges: list[Gauge] = []
    torn = received = 0
    async with running_relay() as relay, joined(relay, B) as b:
        events = b.events()
        for number in range(100):
            with contextlib.suppress(ConnectionLost):
                async with joined(relay, A) as a:
                    gauge = Gauge(a._transport, choose.randrange(200_000))
                    gauges.append(gauge)
                    monkeypatch.setattr(a._transport, "_send", raising(gauge))
                    for _ in range(5):
                        a.send(B.peer_id, sealed(number, choose.randrange(60_000)))
                    await trio.sleep(0.002)
                    a.send(B.peer_id, b"later")
            with trio.move_on_after(0.002):
                while True:
                    event = await anext(events)
                    if isinstance(event, Received) and event.payload != b"later":
                        received += 1
                        torn += not is_whole(event.payload)
    assert received > 50
    assert torn == 0
    assert sum(gauge.failed for gauge in gauges) > 20
    assert sum(gauge.n_after_failure for gauge in gauges) == 0


def raising(gauge: Gauge):
    def send(data) -> int:
        try:
            return gauge.send(data)
        except BlockingIOError:
            return 0
        except OSError as exc:
            raise trio.BrokenResourceError(str(exc)) from exc

    return send


@trio_test(autojump=True)
async def test_a_killed_peer_is_noticed_at_once() -> None:
    async with running_relay() as relay, joined(relay, A) as a:
        async with raw_peer(relay, B) as raw:
            await raw.send(send_frame(A.peer_id))
            assert isinstance(await anext(a.events()), Received)
            killed_at = trio.current_time()
        assert await anext(a.events()) == PeerGone(B.peer_id, GoneReason.DISCONNECTED)
        assert trio.current_time() - killed_at < 0.5


@trio_test(autojump=True)
async def test_b28_a_silent_peer_is_lost_within_its_time() -> None:
    async with running_relay() as relay, joined(relay, A) as a:
        async with raw_peer(relay, B) as raw:
            await raw.send(send_frame(A.peer_id))
            await anext(a.events())
            started = trio.current_time()
            assert await anext(a.events()) == PeerGone(B.peer_id, GoneReason.SILENT)
            assert 17 <= trio.current_time() - started <= 25


@trio_test
async def test_counters_are_conserved_over_real_connections() -> None:
    async with running_relay() as relay:
        async with joined(relay, A) as a, joined(relay, B):
            for number in range(300):
                with contextlib.suppress(SendQueueFull):
                    a.send(B.peer_id, bytes(8000), nack=number % 2 == 0)
                    a.send(C.peer_id, b"nobody", nack=number % 3 == 0)
                if number % 50 == 0:
                    await trio.sleep(0.001)
        counters = relay.counters
    assert counters.accepted == counters.n_settled > 0
    assert relay.switch.budget.n_bytes == 0


@pytest.mark.parametrize("tls", [False, True])
def test_what_a_receiver_takes_in_part_is_ended_by_its_own_writer(
    tls, monkeypatch
) -> None:
    n_sends = 0
    whole = TcpStream._send

    def send_in_part(stream: TcpStream, data: bytes) -> int:
        nonlocal n_sends
        n_sends += 1
        return whole(stream, memoryview(data)[:700])

    async def main() -> None:
        config = tls_config() if tls else None
        async with (
            running_relay(config) as relay,
            joined(relay, A) as a,
            joined(relay, B) as b,
        ):
            events = b.events()
            await trio.testing.wait_all_tasks_blocked()
            monkeypatch.setattr(TcpStream, "_send", send_in_part)
            for number in range(20):
                a.send(B.peer_id, sealed(number, 5000))
            for number in range(20):
                event = await anext(events)
                assert isinstance(event, Received)
                assert event.payload == sealed(number, 5000)
            monkeypatch.setattr(TcpStream, "_send", whole)
            assert n_sends > 40
            counters = relay.counters
            assert counters.accepted == counters.n_settled == 20

    trio.run(main)
