"""A relay in this process, and peers of it, for tests: real sockets on loopback."""

import contextlib
import socket
from collections.abc import AsyncIterator, Callable
from functools import partial

import trio
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from relay import (
    ClientSettings,
    Credentials,
    Endpoint,
    NetworkToken,
    RateClass,
    RelayConfig,
    RelayConnection,
    Role,
    RunningRelay,
    SelfSigned,
    SigningKey,
    connect,
    encode_token,
    serve,
)
from relay.defaults import SUBPROTOCOL
from relay.gate import GateLimits
from relay.greetings import encode_auth, parse_challenge
from relay.handshake import answer_challenge, client_nonce
from relay.streams import TcpStream

__all__ = [
    "NETWORK",
    "PLAINTEXT",
    "RELAY",
    "WIDE_GATE",
    "RawPeer",
    "credentials",
    "going_clock",
    "joined",
    "key",
    "plain_config",
    "raw_peer",
    "running_relay",
    "tls_config",
    "token_for",
    "wall_us",
]

WIDE_GATE = GateLimits(all_s=1e6, all_burst=1e6)
PLAINTEXT = ClientSettings(allow_plaintext=True)


def key(number: int) -> SigningKey:
    """The same key for the same number, in every run."""
    return SigningKey.from_seed(bytes([number]) * 32)


RELAY = key(200)
NETWORK = key(201)


def wall_us() -> int:
    """A wall clock that stands."""
    return 1_800_000_000_000_000


def going_clock() -> Callable[[], int]:
    """A wall clock that goes with trio's, from where `wall_us` stands.

    By a clock that stands, whoever is connected for 30 s takes itself for suspended.
    """
    began = trio.current_time()
    return lambda: wall_us() + int((trio.current_time() - began) * 1e6)


def plain_config(**changes: object) -> RelayConfig:
    """A relay on loopback without TLS, open to anybody, on a free port."""
    settings: dict[str, object] = {
        "identity": RELAY,
        "host": "127.0.0.1",
        "port": 0,
        "tls": None,
        "behind_front": True,
        "open": True,
        "gate": WIDE_GATE,
        "drain_s": 0.5,
    }
    return RelayConfig(**(settings | changes))


def tls_config(**changes: object) -> RelayConfig:
    """The same with a self-signed certificate."""
    return plain_config(tls=SelfSigned(), behind_front=False, **changes)


def token_for(peer: SigningKey, **changes: object) -> bytes:
    """A token of the test network."""
    settings: dict[str, object] = {
        "network": NETWORK.peer_id,
        "peer_id": peer.peer_id,
        "rate_class": RateClass.HUB,
    }
    return encode_token(NetworkToken(**(settings | changes)), NETWORK.sign)


def credentials(
    peer: SigningKey,
    *,
    role: Role = Role.BACKBONE,
    token: bytes = b"",
    ticket: bytes = b"",
) -> Credentials:
    """Who a peer is; as a backbone it has the large limits."""
    return Credentials(
        peer_id=peer.peer_id, sign=peer.sign, role=role, token=token, ticket=ticket
    )


@contextlib.asynccontextmanager
async def running_relay(
    config: RelayConfig | None = None, **options: object
) -> AsyncIterator[RunningRelay]:
    """Run a relay while the block runs."""
    options.setdefault("wall_us", wall_us)
    async with trio.open_nursery() as nursery:
        running = await nursery.start(
            partial(serve, config or plain_config(), **options)
        )
        yield running
        nursery.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def joined(
    relay: RunningRelay | Endpoint, peer: SigningKey, **changes: object
) -> AsyncIterator[RelayConnection]:
    """Connect a peer."""
    endpoint = relay if isinstance(relay, Endpoint) else relay.endpoint("127.0.0.1")
    settings = changes.pop("settings", PLAINTEXT)
    clock = changes.pop("wall_us", None) or going_clock()
    who = credentials(peer, **changes)
    async with connect(endpoint, who, wall_us=clock, settings=settings) as connection:
        yield connection


class RawPeer:
    """A peer that says what a test tells it to, well-formed or not."""

    def __init__(self, stream: TcpStream, port: int) -> None:
        self.stream = stream
        self.protocol = ClientProtocol(
            parse_uri(f"ws://127.0.0.1:{port}/relay"),
            subprotocols=[Subprotocol(SUBPROTOCOL)],
        )
        self._frames: list[Frame] = []
        self._upgraded = False

    async def flush(self) -> None:
        """Write what the protocol object has to say."""
        await self.stream.send_all(b"".join(self.protocol.data_to_send()))

    async def upgrade(self) -> None:
        """Send the request and read the answer."""
        self.protocol.send_request(self.protocol.connect())
        await self.flush()
        while not self._upgraded:
            if not await self._read():
                raise AssertionError("the relay closed the connection")

    async def join(self, peer: SigningKey) -> None:
        """Upgrade and authenticate as an open relay's backbone."""
        await self.upgrade()
        challenge = parse_challenge(await self.message())
        nonce = client_nonce(wall_us(), bytes(8))
        auth = answer_challenge(challenge, credentials(peer), "127.0.0.1", nonce)
        await self.send(encode_auth(auth))
        await self.message()

    async def send(self, message: bytes) -> None:
        """Send one binary message."""
        self.protocol.send_binary(message)
        await self.flush()

    async def message(self) -> bytes:
        """Return the next binary message."""
        frame = await self.frame()
        if frame is None or frame.opcode is not Opcode.BINARY:
            raise AssertionError(f"not a message: {frame}")  # under -O too
        return bytes(frame.data)

    async def frame(self) -> Frame | None:
        """Return the next frame, None at the end of the stream."""
        while not self._frames:
            if not await self._read():
                return None
        return self._frames.pop(0)

    async def close_code(self) -> int | None:
        """Read to the end; the code with which the relay closed, if it said one."""
        while await self.frame() is not None:
            pass
        closed = self.protocol.close_rcvd
        return None if closed is None else closed.code

    async def _read(self) -> bool:
        try:
            chunk = await self.stream.receive_some(65536)
        except trio.BrokenResourceError:
            return False
        if not chunk:
            return False
        self.take(chunk)
        return True

    def take(self, chunk: bytes) -> None:
        """Note what was read from the relay."""
        self.protocol.receive_data(chunk)
        for event in self.protocol.events_received():
            if isinstance(event, Frame):
                self._frames.append(event)
            else:
                self._upgraded = True


@contextlib.asynccontextmanager
async def raw_peer(
    relay: RunningRelay, peer: SigningKey | None = None
) -> AsyncIterator[RawPeer]:
    """Open a raw connection; joined already if a key is given."""
    opened = await trio.open_tcp_stream("127.0.0.1", relay.port)
    stream = TcpStream(socket.socket(fileno=opened.socket.detach()))
    try:
        raw = RawPeer(stream, relay.port)
        if peer is not None:
            await raw.join(peer)
        yield raw
    finally:
        stream.close()
