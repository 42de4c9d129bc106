"""The relay's process under load: killed, drained, restarted, stopped, continued.

Two peers of a `p2pmoe relay` stream numbered, sealed messages to each other and follow
the client's rules (`relay.backoff`). Whatever becomes of the relay: what arrives is
whole, never twice and in order; both come back by themselves; neither is ever told that
the other is gone, since only their relay was.
"""

import random
import signal
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mobile_worker.clock import SystemClock
from relay import (
    ClientSettings,
    ConnectionLost,
    FrameClass,
    Received,
    RelayConnection,
    RelayError,
    RelayRestarting,
    SendQueueFull,
    connect,
    parse_endpoint,
)
from relay.backoff import Backoff
from relay.events import PeerGone
from relay.groups import only_exception
from tests.support.nodes import until
from tests.support.operator_processes import OperatorProcess
from tests.support.ports import reserved_port
from tests.support.relays import credentials, key
from tests.support.trio_test import trio_test

pytestmark = pytest.mark.slow

# Silence is noticed within 7 s here, so that a stopped relay is given up soon; one that
# a busy machine does not run for some seconds is not.
QUICK = ClientSettings(ping_interval_s=2.0, ping_timeout_s=4.0, dial_timeout_s=5.0)
WALL = SystemClock().wall_us


class Streamer:
    """One peer; `n_joined` counts its connections, `got` what came from the other."""

    def __init__(self, number: int, other: int) -> None:
        self.key, self.other = key(number), key(other).peer_id
        self.n_joined = 0
        self.got: list[int] = []
        self.losses: list[str] = []
        self.asked_ms: list[int] = []
        self.other_gone = False
        self._n_sent = 0
        self._asked_s = 0.0

    async def live(self, url: str) -> None:
        rng = random.Random(self._n_sent)
        delays = Backoff(random=rng.random, max_s=2.0)
        while True:
            try:
                async with connect(
                    parse_endpoint(url),
                    credentials(self.key),
                    wall_us=WALL,
                    settings=QUICK,
                ) as connection:
                    self.n_joined += 1
                    delays.reset()
                    await self.stream(connection)
            except RelayError as exc:
                self.losses.append(str(exc))
            asked_s, self._asked_s = self._asked_s, 0.0
            await trio.sleep(delays.next_delay_s(asked_s=asked_s))

    async def stream(self, connection: RelayConnection) -> None:
        async with only_exception(), trio.open_nursery() as nursery:
            nursery.start_soon(self.flood, connection)
            async for event in connection.events():
                self.heed(event)

    def heed(self, event: object) -> None:
        if isinstance(event, Received):
            body, seal = event.payload[:-4], event.payload[-4:]
            assert zlib.crc32(body).to_bytes(4, "big") == seal
            self.got.append(int.from_bytes(body[:8], "big"))
        elif isinstance(event, RelayRestarting):
            self.asked_ms.append(event.reconnect_in_ms)
            self._asked_s = event.reconnect_in_ms / 1000
        elif isinstance(event, PeerGone):
            self.other_gone = True

    async def flood(self, connection: RelayConnection) -> None:
        try:
            while True:
                self._n_sent += 1
                body = self._n_sent.to_bytes(8, "big") * 2000
                message = body + zlib.crc32(body).to_bytes(4, "big")
                try:
                    connection.send(
                        self.other, message, frame_class=FrameClass.BULK, nack=False
                    )
                except SendQueueFull:
                    await connection.wait_writable()
                if self._n_sent % 8 == 0:
                    await trio.sleep(0.005)
        except ConnectionLost:
            return

    def check(self) -> None:
        assert self.got == sorted(set(self.got))
        assert not self.other_gone


class Load:
    """Both peers, and waiting for their streams."""

    def __init__(self) -> None:
        self.peers = Streamer(1, 2), Streamer(2, 1)

    async def flows(self) -> None:
        """Wait until something more has come to both."""
        counts = [len(peer.got) for peer in self.peers]
        await until(
            lambda: all(
                len(peer.got) > n + 20
                for peer, n in zip(self.peers, counts, strict=True)
            ),
            within_s=60,
        )

    async def back(self, n_joined: int) -> None:
        """Wait until both have joined so many times, and their streams flow."""
        await until(
            lambda: all(peer.n_joined >= n_joined for peer in self.peers), within_s=60
        )
        await self.flows()


class Relay:
    """The relay's process, started anew at the same port and with the same key."""

    def __init__(self, folder: Path, port: int) -> None:
        self._folder = folder
        self._port = port
        self.restart()
        self.url: str = self.process.report["relay"]

    def restart(self) -> None:
        words = ("relay", "--open", "--only", "--self-signed")
        where = ("--data", str(self._folder), "--listen", f"127.0.0.1:{self._port}")
        self.process = OperatorProcess(self._folder, *words, *where)


@pytest.fixture
def relay(tmp_path: Path) -> Iterator[Relay]:
    with reserved_port() as port:
        made = Relay(tmp_path, port)
        yield made
        if made.process.process.poll() is None:
            made.process.process.send_signal(signal.SIGCONT)
        made.process.kill()


@asynccontextmanager
async def load_on(relay: Relay) -> AsyncIterator[Load]:
    load = Load()
    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            for peer in load.peers:
                nursery.start_soon(peer.live, relay.url)
            await load.back(1)
            yield load
            nursery.cancel_scope.cancel()
    for peer in load.peers:
        peer.check()


@trio_test
async def test_b28_a_killed_relay_comes_back_with_its_peers(relay: Relay) -> None:
    async with load_on(relay) as load:
        for n in (2, 3):
            relay.process.kill()
            await trio.to_thread.run_sync(relay.restart)
            await load.back(n)


@trio_test
async def test_a_drained_relay_says_when_to_come_back(relay: Relay) -> None:
    async with load_on(relay) as load:
        code = await trio.to_thread.run_sync(relay.process.stop)
        assert code == 0
        await until(lambda: all(peer.losses for peer in load.peers), within_s=30)
        assert all(len(peer.asked_ms) == 1 for peer in load.peers)
        await trio.to_thread.run_sync(relay.restart)
        await load.back(2)


@trio_test
async def test_b28_a_relay_that_stands_still_is_left_and_found_again(
    relay: Relay,
) -> None:
    process = relay.process.process
    async with load_on(relay) as load:
        process.send_signal(signal.SIGSTOP)
        await until(
            lambda: all(peer.losses for peer in load.peers), within_s=60
        )  # silent: an open socket proves nothing
        process.send_signal(signal.SIGCONT)
        await load.back(2)
        # A pause shorter than anybody's patience costs nothing.
        n_joined = [peer.n_joined for peer in load.peers]
        process.send_signal(signal.SIGSTOP)
        await trio.sleep(0.5)
        process.send_signal(signal.SIGCONT)
        await load.flows()
        assert [peer.n_joined for peer in load.peers] == n_joined
