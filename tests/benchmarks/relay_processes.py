"""The processes of the relay benchmark, each started by `bench_relay`.

    ours plain|tls     our relay; prints its port
    stock plain|tls    the stock websockets.trio server forwarding the same messages
    load plain|tls OURS_PORT OURS_PID STOCK_PORT STOCK_PID
                       the load generator; prints one JSON object of lists of rounds

The generator speaks raw WebSocket with frames made beforehand, so that what it measures
is the server: both servers get the same bytes in the same order, rounds alternating.
"""

import contextlib
import json
import os
import selectors
import socket
import ssl
import statistics
import sys
import time
from functools import partial
from pathlib import Path

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.trio.server import ServerConnection
from websockets.trio.server import serve as stock_serve
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from relay import RelayConfig, RunningRelay, SelfSigned, SigningKey, serve
from relay.defaults import MAX_MESSAGE_BYTES, SUBPROTOCOL
from relay.frame_types import FrameClass, Recv, Send
from relay.frames import DATA_HEADER, encode_frame
from relay.gate import GateLimits
from relay.greetings import encode_auth, parse_challenge
from relay.handshake import Credentials, answer_challenge, client_nonce
from relay.keys import PeerId
from relay.tls import pinning_context, server_context
from relay.tokens import Role

PAYLOAD_BYTES = 8192
N_PAIRS = 8
WINDOW = 8
N_ROUNDS = 5
ROUND_S = 0.8
N_ROUND_TRIPS = 400
N_IDLE = 300
IDENTITY = SigningKey.from_seed(b"b" * 32)
_NO_GATE = GateLimits(all_s=1e6, all_burst=1e6)


def _wall_us() -> int:
    return time.time_ns() // 1000


async def run_ours(mode: str) -> None:
    config = RelayConfig(
        identity=IDENTITY,
        host="127.0.0.1",
        port=0,
        tls=SelfSigned() if mode == "tls" else None,
        behind_front=mode == "plain",
        open=True,
        gate=_NO_GATE,
    )
    async with trio.open_nursery() as nursery:
        running: RunningRelay = await nursery.start(
            partial(serve, config, wall_us=_wall_us)
        )
        print(running.port, flush=True)


async def run_stock(mode: str) -> None:
    peers: dict[bytes, ServerConnection] = {}

    async def forward(connection: ServerConnection) -> None:
        own_id = await connection.recv()
        peers[own_id] = connection
        await connection.send(b"welcome")
        with contextlib.suppress(ConnectionClosed):
            async for message in connection:
                head = message[:8] + own_id
                await peers[message[8:40]].send(head + message[DATA_HEADER.size :])

    context = server_context(SelfSigned(), IDENTITY) if mode == "tls" else None
    async with trio.open_nursery() as nursery:
        server = await nursery.start(
            partial(
                stock_serve,
                forward,
                0,
                host="127.0.0.1",
                ssl=context,
                compression=None,
                max_size=MAX_MESSAGE_BYTES,
                subprotocols=[Subprotocol(SUBPROTOCOL)],
            )
        )
        print(server.listeners[0].socket.getsockname()[1], flush=True)


class RawPeer:
    """A joined peer on a blocking socket."""

    def __init__(
        self,
        kind: str,
        mode: str,
        port: int,
        number: int,
        *,
        role: Role = Role.BACKBONE,
    ) -> None:
        self.key = SigningKey.from_seed(number.to_bytes(32, "big"))
        self._protocol = ClientProtocol(
            parse_uri(f"ws://127.0.0.1:{port}/relay"),
            subprotocols=[Subprotocol(SUBPROTOCOL)],
        )
        self._frames: list[object] = []
        raw = socket.create_connection(("127.0.0.1", port))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock: socket.socket = raw
        if mode == "tls":
            self.sock = pinning_context().wrap_socket(raw)
        self._protocol.send_request(self._protocol.connect())
        self._read_event()
        if kind == "ours":
            challenge = parse_challenge(self._read_event())
            who = Credentials(peer_id=self.key.peer_id, sign=self.key.sign, role=role)
            nonce = client_nonce(_wall_us(), bytes(8))
            auth = answer_challenge(challenge, who, "127.0.0.1", nonce)
            self._protocol.send_binary(encode_auth(auth))
        else:
            self._protocol.send_binary(self.key.peer_id)
        self._read_event()

    def _read_event(self) -> bytes:
        self.sock.sendall(b"".join(self._protocol.data_to_send()))
        while not self._frames:
            self._protocol.receive_data(self.sock.recv(65536))
            self._frames += self._protocol.events_received()
        event = self._frames.pop(0)
        return bytes(event.data) if isinstance(event, Frame) else b""

    def wire_frame(self, destination: PeerId) -> bytes:
        """A masked WebSocket message that carries one SEND."""
        send = Send(
            destination=destination,
            payload=os.urandom(PAYLOAD_BYTES),
            frame_class=FrameClass.INTERACTIVE,
            flow=1,
            ttl_ms=10_000,
            nack=True,
        )
        return Frame(Opcode.BINARY, encode_frame(send)).serialize(mask=True)

    def receive(self, n_bytes: int) -> None:
        while n_bytes > 0:
            n_bytes -= len(self.sock.recv(min(n_bytes, 65536)))


def _received_size() -> int:
    recv = Recv(
        source=IDENTITY.peer_id,
        payload=bytes(PAYLOAD_BYTES),
        frame_class=FrameClass.INTERACTIVE,
        flow=1,
        age_ms=0,
        nack=True,
    )
    return len(Frame(Opcode.BINARY, encode_frame(recv)).serialize(mask=False))


RECEIVED_BYTES = _received_size()


class Stream:
    """Pairs of peers with a window of messages in flight each."""

    def __init__(self, kind: str, mode: str, port: int) -> None:
        self.selector = selectors.DefaultSelector()
        for number in range(1, 2 * N_PAIRS, 2):
            sender = RawPeer(kind, mode, port, number)
            receiver = RawPeer(kind, mode, port, number + 1)
            frame = sender.wire_frame(receiver.key.peer_id)
            sender.sock.sendall(frame * WINDOW)
            lane = [receiver.sock, sender.sock, frame, 0]
            self.selector.register(receiver.sock, selectors.EVENT_READ, lane)

    def round(self) -> float:
        """Keep the windows full for a while; messages received per second."""
        n_bytes = 0
        started = time.perf_counter()
        while time.perf_counter() - started < ROUND_S:
            for ready, _ in self.selector.select(0.1):
                n_bytes += self._serve(ready.data)
        return n_bytes / RECEIVED_BYTES / (time.perf_counter() - started)

    def _serve(self, lane: list) -> int:
        receiver, sender, frame, rest = lane
        got = len(receiver.recv(65536))
        while isinstance(receiver, ssl.SSLSocket) and receiver.pending():
            got += len(receiver.recv(65536))
        n_whole, lane[3] = divmod(rest + got, RECEIVED_BYTES)
        if n_whole:
            sender.sendall(frame * n_whole)
        return got

    def rest(self) -> None:
        """Let what is in flight arrive, so that the other server has the machine."""
        while True:
            ready = self.selector.select(0.1)
            if not ready:
                break
            for key, _ in ready:
                lane = key.data
                got = len(lane[0].recv(65536))
                lane[3] = (lane[3] + got) % RECEIVED_BYTES

    def refill(self) -> None:
        for key in self.selector.get_map().values():
            key.data[1].sendall(key.data[2] * WINDOW)


def round_trips(a: RawPeer, b: RawPeer) -> tuple[float, float]:
    """A to B and back through the server: p50 and p99 in ms."""
    there, back = a.wire_frame(b.key.peer_id), b.wire_frame(a.key.peer_id)
    times_ms = []
    for _ in range(N_ROUND_TRIPS):
        started = time.perf_counter()
        a.sock.sendall(there)
        b.receive(RECEIVED_BYTES)
        b.sock.sendall(back)
        a.receive(RECEIVED_BYTES)
        times_ms.append((time.perf_counter() - started) * 1000)
    return statistics.median(times_ms), statistics.quantiles(times_ms, n=100)[98]


def resident_kb(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    line = next(row for row in status.splitlines() if row.startswith("VmRSS"))
    return int(line.split()[1])


def idle_kb(kind: str, mode: str, port: int, pid: int) -> float:
    """Resident memory that one idle connection costs the server, in KB."""
    warm = [RawPeer(kind, mode, port, 1000 + n) for n in range(20)]
    before = resident_kb(pid)
    peers = [RawPeer(kind, mode, port, 2000 + n) for n in range(N_IDLE)]
    time.sleep(0.2)
    grown = resident_kb(pid) - before
    for peer in warm + peers:
        peer.sock.close()
    return grown / N_IDLE


def run_load(mode: str, ports: dict[str, int], pids: dict[str, int]) -> None:
    results: dict[str, list[float]] = {}
    for kind, port in ports.items():
        results[f"idle_kb {kind}"] = [idle_kb(kind, mode, port, pids[kind])]
    pairs = {
        kind: [RawPeer(kind, mode, port, 500 + n) for n in (0, 1)]
        for kind, port in ports.items()
    }
    for _ in range(N_ROUNDS):
        for kind, (a, b) in pairs.items():
            p50, p99 = round_trips(a, b)
            results.setdefault(f"p50 {kind}", []).append(p50)
            results.setdefault(f"p99 {kind}", []).append(p99)
    streams = {kind: Stream(kind, mode, port) for kind, port in ports.items()}
    for stream in streams.values():
        stream.rest()
    for _ in range(N_ROUNDS):
        for kind, stream in streams.items():
            stream.refill()
            results.setdefault(f"rate {kind}", []).append(stream.round())
            stream.rest()
    print(json.dumps(results), flush=True)


def main() -> None:
    role, mode, *rest = sys.argv[1:]
    if role == "ours":
        trio.run(run_ours, mode)
    elif role == "stock":
        trio.run(run_stock, mode)
    else:
        ours_port, ours_pid, stock_port, stock_pid = map(int, rest)
        run_load(
            mode,
            {"ours": ours_port, "stock": stock_port},
            {"ours": ours_pid, "stock": stock_pid},
        )


if __name__ == "__main__":
    main()
