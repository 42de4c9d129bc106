"""The relay among many, for `bench_relay`: programs, each a process of its own.

    relay plain|tls free|gated PORT   our relay, without or with its usual gate; prints
                                      its port and, once stdin ends, how many joined in
                                      its busiest second
    idle plain|tls PORT PID N HOLD_S  N joined peers that only answer pings
    crowd PORT                        50 senders, by turns to 50 readers and to one
    trips PORT                        two peers that send one message back and forth
    storm PORT N                      N peers that come back when the relay is gone

The last four print one JSON object. Readers of `crowd` take `READER_BYTES_S`, its
senders offer four times that in frames of 1 and 8 KiB, so the one reader is hot: frames
for it are dropped, and what is measured is whose, and whether `trips` notices. The load
on the relay is the same in both turns. Times are of the monotonic clock, which all
processes share.
"""

import contextlib
import json
import random
import resource
import selectors
import socket
import sys
import time
from collections import Counter
from functools import partial
from typing import Any

import trio
from websockets.frames import Frame, Opcode

from relay import (
    ClientSettings,
    Credentials,
    RelayConfig,
    RelayError,
    RunningRelay,
    connect,
    serve,
)
from relay.backoff import Backoff
from relay.endpoint import Endpoint
from relay.frame_types import FrameClass, FrameType, Ping, Pong, Send
from relay.frames import encode_frame
from relay.gate import GateLimits
from relay.keys import PeerId, SigningKey
from relay.tls import SelfSigned
from relay.tokens import Role
from tests.benchmarks.relay_processes import IDENTITY, RawPeer, resident_kb

N_SENDERS = 50
READER_BYTES_S = 1_000_000
TURN_S = 2.0
SETTLE_S = 1.0  # before each turn: queues fill or empty
N_TURNS = 7  # of each kind
TRIP_EVERY_S = 0.004
SAMPLE_S = 0.02
_PONG = Frame(Opcode.BINARY, encode_frame(Pong(nonce=bytes(8)))).serialize(mask=True)
_PING_WIRE = len(encode_frame(Ping(nonce=bytes(8)))) + 2


def wall_us() -> int:
    return time.time_ns() // 1000


async def run_relay(mode: str, gate: str, port: int) -> None:
    config = RelayConfig(
        identity=IDENTITY,
        host="127.0.0.1",
        port=port,
        tls=SelfSigned() if mode == "tls" else None,
        behind_front=mode == "plain",
        open=True,
        gate=GateLimits(all_s=1e6, all_burst=1e6) if gate == "free" else GateLimits(),
    )
    async with trio.open_nursery() as nursery:
        running = await nursery.start(partial(serve, config, wall_us=wall_us))
        print(running.port, flush=True)
        samples: list[int] = []
        nursery.start_soon(sample_joins, running, samples)
        await trio.to_thread.run_sync(sys.stdin.read)
        per_s = round(1 / SAMPLE_S)
        later = samples[per_s:] or samples[-1:]
        print(max(b - a for a, b in zip(samples, later, strict=False)), flush=True)
        nursery.cancel_scope.cancel()


async def sample_joins(running: RunningRelay, samples: list[int]) -> None:
    due = trio.current_time()
    while True:
        samples.append(running.counters.admitted)
        due += SAMPLE_S
        await trio.sleep_until(due)


def run_idle(mode: str, port: int, pid: int, n: int, hold_s: float) -> dict[str, float]:
    """Join and stay; what that costs the relay, and how many are still there."""
    before = resident_kb(pid)
    ready = selectors.DefaultSelector()
    for number in range(n):
        peer = RawPeer("ours", mode, port, 10_000 + number)
        ready.register(peer.sock, selectors.EVENT_READ)
        answer_pings(ready, 0.0)
    grown_kb = resident_kb(pid) - before
    until = time.monotonic() + hold_s
    while time.monotonic() < until:
        answer_pings(ready, 0.5)
    held = len(ready.get_map())
    grown_kb = max(grown_kb, resident_kb(pid) - before)
    return {"held": held, "kb": grown_kb / n, "rss_mb": resident_kb(pid) / 1024}


def answer_pings(ready: selectors.BaseSelector, wait_s: float) -> None:
    for key, _ in ready.select(wait_s):
        sock: Any = key.fileobj
        chunk = sock.recv(4096)
        if chunk:
            sock.sendall(_PONG * (len(chunk) // _PING_WIRE))
        else:
            ready.unregister(sock)


def wire_of(destination: PeerId, n_bytes: int) -> bytes:
    send = Send(
        destination=destination,
        payload=bytes(n_bytes),
        frame_class=FrameClass.INTERACTIVE,
        flow=1,
        ttl_ms=10_000,
        nack=True,
    )
    return Frame(Opcode.BINARY, encode_frame(send)).serialize(mask=True)


class Reader:
    """Takes no more than its rate and counts the bytes of each source."""

    def __init__(self, port: int, number: int) -> None:
        self.peer = RawPeer("ours", "plain", port, number, role=Role.WORKER)
        self.peer.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        self.peer.sock.setblocking(False)
        self.by_source: Counter[bytes] = Counter()
        self._rest = b""
        self._owed = 0.0

    def read(self, passed_s: float) -> None:
        self._owed = min(self._owed + passed_s * READER_BYTES_S, 65_536.0)
        if self._owed < 16_384:
            return
        try:
            chunk = self.peer.sock.recv(int(self._owed))
        except BlockingIOError:
            return
        self._owed -= len(chunk)
        self._count(self._rest + chunk)

    def _count(self, wire: bytes) -> None:
        at = 0
        while len(wire) - at >= _PING_WIRE:
            size, head = wire[at + 1], 2
            if size == 126:
                size, head = int.from_bytes(wire[at + 2 : at + 4], "big"), 4
            start = at + head
            if start + size > len(wire):
                break
            if wire[start] == FrameType.PING:
                self.peer.sock.sendall(_PONG)
            elif wire[start] == FrameType.RECV:
                self.by_source[wire[start + 8 : start + 40]] += size
            at = start + size
        self._rest = wire[at:]


class Sender:
    """Offers frames at its own pace: 1 or 8 KiB, two to eight times its fair part."""

    def __init__(self, port: int, number: int, readers: list[Reader]) -> None:
        self.peer = RawPeer("ours", "plain", port, number)
        self.peer.sock.setblocking(False)
        n_bytes = (1024, 8192)[number % 2]
        own, hot = readers[number % len(readers)], readers[0]
        self.wires = {
            "spread": wire_of(own.peer.key.peer_id, n_bytes),
            "hot": wire_of(hot.peer.key.peer_id, n_bytes),
        }
        times = 2 + number % 5
        self._every_s = n_bytes / (READER_BYTES_S / N_SENDERS * times)
        self._due = time.monotonic() + random.random() * self._every_s
        self._rest = b""

    def send(self, kind: str, now: float) -> None:
        with contextlib.suppress(BlockingIOError):
            self.peer.sock.recv(65_536)  # NACKs
        if now >= self._due:
            self._due = max(self._due + self._every_s, now - self._every_s)
            if not self._rest:
                self._rest = self.wires[kind]
        if self._rest:
            try:
                self._rest = self._rest[self.peer.sock.send(self._rest) :]
            except BlockingIOError:
                return


def run_crowd(port: int) -> dict[str, Any]:
    readers = [Reader(port, 100 + n) for n in range(N_SENDERS)]
    senders = [Sender(port, 200 + n, readers) for n in range(N_SENDERS)]
    turns: list[tuple[str, float, float]] = []
    jain: list[float] = []
    print("ready", flush=True)
    for _ in range(N_TURNS):
        for kind in ("spread", "hot"):
            take_turn(senders, readers, kind, SETTLE_S)
            readers[0].by_source.clear()
            began = time.monotonic()
            take_turn(senders, readers, kind, TURN_S)
            turns.append((kind, began, time.monotonic()))
            if kind == "hot":
                jain.append(jain_index(list(readers[0].by_source.values())))
    return {"turns": turns, "jain": jain}


def take_turn(
    senders: list[Sender], readers: list[Reader], kind: str, for_s: float
) -> None:
    now = before = time.monotonic()
    until = now + for_s
    while now < until:
        for sender in senders:
            sender.send(kind, now)
        for reader in readers:
            reader.read(now - before)
        before = now
        time.sleep(0.002)
        now = time.monotonic()


def jain_index(shares: list[int]) -> float:
    """1.0 where all have the same, 1/n where one has all (Jain, Chiu, Hawe, 1984)."""
    shares = shares + [0] * (N_SENDERS - len(shares))
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))


def run_trips(port: int) -> dict[str, list[tuple[float, float]]]:
    """Until stdin ends: when each trip began, and how many ms it took."""
    a, b = (RawPeer("ours", "plain", port, 900 + n) for n in (0, 1))
    there, back = a.wire_frame(b.key.peer_id), b.wire_frame(a.key.peer_id)
    size = len(there) - 4  # a server does not mask
    print("ready", flush=True)
    stop = selectors.DefaultSelector()
    stop.register(sys.stdin, selectors.EVENT_READ)
    trips = []
    while not stop.select(TRIP_EVERY_S):
        began = time.monotonic()
        a.sock.sendall(there)
        b.receive(size)
        b.sock.sendall(back)
        a.receive(size)
        trips.append((began, (time.monotonic() - began) * 1000))
    return {"trips": trips}


class Storm:
    """Peers that follow the client's rules; when each was admitted."""

    def __init__(self, port: int, n: int) -> None:
        self.endpoint = Endpoint(f"ws://127.0.0.1:{port}/relay", IDENTITY.peer_id)
        self.n_left = n
        self.all_up = trio.Event()
        self.joins: list[float] = []

    async def live(self, number: int) -> None:
        key = SigningKey.from_seed(number.to_bytes(32, "big"))
        who = Credentials(peer_id=key.peer_id, sign=key.sign, role=Role.WORKER)
        settings = ClientSettings(allow_plaintext=True)
        backoff = Backoff(random=random.random)
        while True:
            try:
                async with connect(
                    self.endpoint, who, wall_us=wall_us, settings=settings
                ) as connection:
                    self.joins.append(time.monotonic())
                    self.n_left -= 1
                    if not self.n_left:
                        self.all_up.set()
                    backoff.reset()
                    async for _ in connection.events():
                        pass
            except RelayError:
                await trio.sleep(backoff.next_delay_s())

    async def next_time(self, n: int) -> list[float]:
        await self.all_up.wait()
        joins, self.joins = self.joins, []
        self.n_left, self.all_up = n, trio.Event()
        return joins


async def run_storm(port: int, n: int) -> None:
    storm = Storm(port, n)
    async with trio.open_nursery() as nursery:
        for number in range(n):
            nursery.start_soon(storm.live, number)
        await storm.next_time(n)
        print("up", flush=True)
        joins = await storm.next_time(n)
        print(json.dumps({"last": max(joins)}), flush=True)
        nursery.cancel_scope.cancel()


def main() -> None:
    role, *rest = sys.argv[1:]
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    if role == "relay":
        trio.run(run_relay, rest[0], rest[1], int(rest[2]))
    elif role == "storm":
        trio.run(run_storm, int(rest[0]), int(rest[1]))
    elif role == "idle":
        mode, *numbers = rest
        port, pid, n, hold_s = map(int, numbers)
        print(json.dumps(run_idle(mode, port, pid, n, hold_s)), flush=True)
    else:
        run = {"crowd": run_crowd, "trips": run_trips}[role]
        print(json.dumps(run(int(rest[0]))), flush=True)


if __name__ == "__main__":
    main()
