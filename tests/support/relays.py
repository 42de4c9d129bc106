"""A relay in this process, and peers of it, for tests: real sockets on loopback."""

import contextlib
from collections.abc import AsyncIterator
from functools import partial

import trio

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

__all__ = [
    "NETWORK",
    "RELAY",
    "credentials",
    "joined",
    "key",
    "plain_config",
    "running_relay",
    "token_for",
    "wall_us",
]

PLAINTEXT = ClientSettings(allow_plaintext=True)


def key(number: int) -> SigningKey:
    """The same key for the same number, in every run."""
    return SigningKey.from_seed(bytes([number]) * 32)


RELAY = key(200)
NETWORK = key(201)


def wall_us() -> int:
    """A wall clock that stands."""
    return 1_800_000_000_000_000


def plain_config(**changes: object) -> RelayConfig:
    """A relay on loopback without TLS, open to anybody, on a free port."""
    settings: dict[str, object] = {
        "identity": RELAY,
        "host": "127.0.0.1",
        "port": 0,
        "tls": None,
        "behind_front": True,
        "open": True,
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
    peer: SigningKey, *, role: Role = Role.BACKBONE, token: bytes = b""
) -> Credentials:
    """Who a peer is; as a backbone it has the large limits."""
    return Credentials(peer_id=peer.peer_id, sign=peer.sign, role=role, token=token)


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
    who = credentials(peer, **changes)
    async with connect(endpoint, who, wall_us=wall_us, settings=settings) as connection:
        yield connection
