"""Faults B29: some of 200 workers stop reading, or nearly; the others do not notice.

The relay, a backbone and 200 workers over real sockets. Every frame for a worker that
reads arrives; one that does not read is closed as slow and its frames are NACKed; the
relay's memory stays within what its queues may hold. (How long others wait beside a
slow one is measured by `make bench-relay`.)
"""

import contextlib
import itertools
import os
import socket
from collections import Counter
from functools import partial

import pytest
import trio

from relay import (
    FrameClass,
    GoneReason,
    Nacked,
    PeerGone,
    Received,
    RelayConnection,
    Role,
    RunningRelay,
    SendQueueFull,
)
from relay.keys import PeerId, SigningKey
from tests.support.nodes import until
from tests.support.processes import footprint
from tests.support.relays import joined, key, raw_peer, running_relay
from tests.support.trio_test import trio_test

BACKBONE = key(250)
MIB = 1 << 20
N_WORKERS = 200
FRAME_BYTES = 60_000
# One batch in the writer's hands and three full queues, for each that does not read.
WORKER_BYTES = 1 * MIB


def worker(number: int) -> SigningKey:
    return SigningKey.from_seed(number.to_bytes(32, "big"))


async def echo(connection: RelayConnection) -> None:
    """Send back what comes."""
    async for event in connection.events():
        if isinstance(event, Received):
            connection.send(event.source, event.payload)


class Flood:
    """A backbone that sends bulk to some and asks the others, round after round."""

    def __init__(self, backbone: RelayConnection) -> None:
        self.backbone = backbone
        self.answers: Counter[PeerId] = Counter()
        self.gone: dict[PeerId, GoneReason] = {}
        self.n_nacked: Counter[PeerId] = Counter()

    async def read(self) -> None:
        async for event in self.backbone.events():
            if isinstance(event, Received):
                self.answers[event.source] += 1
            elif isinstance(event, Nacked):
                self.n_nacked[event.destination] += event.count
            elif isinstance(event, PeerGone):
                self.gone[event.peer] = event.reason

    async def send(self, to: PeerId, payload: bytes, frame_class: FrameClass) -> None:
        while True:
            try:
                self.backbone.send(
                    to, payload, frame_class=frame_class, ttl_ms=60_000, nack=True
                )
            except SendQueueFull:
                await self.backbone.wait_writable()
            else:
                return

    async def bulk(self, to: list[PeerId], n_bytes: int) -> int:
        """Send so many bytes, spread over these peers; how many frames that was."""
        n_frames = n_bytes // FRAME_BYTES
        for number in range(n_frames):
            await self.send(
                to[number % len(to)], bytes(FRAME_BYTES), FrameClass.INTERACTIVE
            )
        return n_frames

    async def ask(self, to: list[PeerId], n_rounds: int) -> None:
        """Ask each once a round; the next round begins when all have answered."""
        for number in range(1, n_rounds + 1):
            for peer in to:
                await self.send(peer, bytes(1000), FrameClass.CONTROL)
            await until(partial(self.have_answered, to, number))

    def have_answered(self, peers: list[PeerId], n_times: int) -> bool:
        return all(self.answers[peer] >= n_times for peer in peers)


async def work(
    relay: RunningRelay,
    peer: SigningKey,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Join and answer what comes."""
    async with joined(relay, peer, role=Role.WORKER) as connection:
        task_status.started()
        await echo(connection)


async def be_stuck(
    relay: RunningRelay,
    peer: SigningKey,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Join and never read again."""
    async with raw_peer(relay, peer):
        task_status.started()
        await trio.sleep_forever()


@pytest.mark.slow
@pytest.mark.parametrize("n_stuck", [1, 50])
def test_b29_workers_that_stop_reading_cost_the_others_nothing(n_stuck: int) -> None:
    async def main() -> None:
        keys = [worker(number) for number in range(1, N_WORKERS + 1)]
        stuck = [peer.peer_id for peer in keys[:n_stuck]]
        others = [peer.peer_id for peer in keys[n_stuck:]]
        async with (
            running_relay() as relay,
            joined(relay, BACKBONE) as backbone,
            trio.open_nursery() as nursery,
        ):
            for number, peer in enumerate(keys):
                live = be_stuck if number < n_stuck else work
                await nursery.start(live, relay, peer)
            flood = Flood(backbone)
            nursery.start_soon(flood.read)
            await flood.ask(others, 2)
            before = footprint(os.getpid()).resident_bytes
            with trio.fail_after(300):
                async with trio.open_nursery() as sending:
                    sending.start_soon(flood.bulk, stuck, 64 * MIB)
                    sending.start_soon(flood.ask, others, 6)
                await until(lambda: len(flood.gone) >= n_stuck)
            grown = footprint(os.getpid()).resident_bytes - before
            # All of the flood in flight: what waits at the backbone counts too.
            assert grown < (n_stuck + 8) * WORKER_BYTES + 16 * MIB
            assert set(flood.gone) == set(stuck)
            assert set(flood.gone.values()) == {GoneReason.SLOW}
            assert set(flood.n_nacked) <= set(stuck)
            assert relay.counters.left == {GoneReason.SLOW: n_stuck}
            assert relay.switch.budget.n_bytes < MIB
            nursery.cancel_scope.cancel()

    trio.run(main)


@trio_test(autojump=True)
async def test_b29_a_reader_of_a_kilobyte_a_second_is_ended() -> None:
    """It reads for ever and never enough: no write stalls for long, all grows old."""
    crawler = worker(1)
    began = trio.current_time()

    async def crawl(stream: trio.abc.ReceiveStream) -> None:
        with contextlib.suppress(trio.BrokenResourceError):
            for second in itertools.count():
                await trio.sleep_until(began + second)
                await stream.receive_some(1000)

    async with (
        running_relay() as relay,
        joined(relay, BACKBONE) as backbone,
        raw_peer(relay) as raw,
        trio.open_nursery() as nursery,
    ):
        small = 4096
        raw.stream._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, small)
        await raw.join(crawler)
        nursery.start_soon(crawl, raw.stream)
        flood = Flood(backbone)
        nursery.start_soon(flood.read)
        with trio.fail_after(30):
            while not flood.gone:
                await flood.send(crawler.peer_id, bytes(8000), FrameClass.INTERACTIVE)
                await trio.sleep(0.05)
        assert flood.gone == {crawler.peer_id: GoneReason.SLOW}
        assert trio.current_time() - began < 12
        assert flood.n_nacked[crawler.peer_id] > 0
        nursery.cancel_scope.cancel()
