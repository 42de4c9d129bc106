"""Mutated bytes for the relay's parsers, its switch and its port; run as a program.

    python [-O] -m tests.support.relay_fuzz parsers N
    python [-O] -m tests.support.relay_fuzz port N

`parsers` mutates N frames of every kind and hands each to a parser that may meet it,
or to a switch as a peer's. `port` opens N connections to a relay of this process, each
of which goes wrong somewhere between the first byte and the frames of a joined peer.
Whatever is raised other than ProtocolError ends the program. Prints one JSON object:
n, refused, grown_bytes (of resident memory), internal_errors, asserts.
"""

import json
import os
import random
import sys
from typing import TYPE_CHECKING

import trio

from relay.errors import ProtocolError
from relay.frame_types import (
    FrameClass,
    Gone,
    GoneReason,
    Limits,
    Nack,
    NackReason,
    Ping,
    Pong,
    Presence,
    PresenceState,
    Recv,
    Restarting,
    Send,
    Status,
    StatusCode,
    Watch,
)
from relay.frames import encode_frame, parse_frame
from relay.gate import GateLimits
from relay.greetings import (
    Auth,
    Challenge,
    Deny,
    DenyCode,
    encode_auth,
    encode_challenge,
    encode_deny,
    parse_auth,
    parse_challenge,
    parse_deny,
    parse_welcome,
)
from relay.handshake import answer_challenge, client_nonce
from relay.incoming import Inbox
from relay.relay_map import RelayEntry, RelayMap, parse_map, sign_map
from relay.revocations import Revocations, parse_revocations, sign_revocations
from relay.tokens import parse_token
from tests.support.processes import footprint
from tests.support.relays import (
    NETWORK,
    RELAY,
    credentials,
    key,
    plain_config,
    raw_peer,
    running_relay,
    tls_config,
    token_for,
    wall_us,
)
from tests.support.switch_world import SwitchWorld

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

_WARM_UP = 2_000
_PEER = key(1)
_ID = _PEER.peer_id
_DATA = {"frame_class": FrameClass.BULK, "flow": 9, "nack": True}


def good_frames() -> list[bytes]:
    """Return one of each frame that follows the handshake."""
    frames = (
        Ping(nonce=bytes(8)),
        Pong(nonce=bytes(8)),
        Status(code=StatusCode.OK, text="fine"),
        Restarting(reconnect_in_ms=5, try_for_ms=60_000),
        Limits(
            max_payload=65_535,
            bytes_s=1,
            burst=1,
            frames_s=1,
            queue_bytes=1,
            max_ttl_ms=1,
            lease_s=0,
        ),
        Send(destination=_ID, payload=b"to itself", ttl_ms=100, **_DATA),
        Send(destination=key(2).peer_id, payload=bytes(3000), ttl_ms=0, **_DATA),
        Recv(source=_ID, payload=b"payload", age_ms=1, **_DATA),
        Nack(destination=_ID, reason=NackReason.RATE, count=3, flow=9, retry_ms=5),
        Gone(peer=_ID, reason=GoneReason.SLOW),
        Watch(peers=(_ID, key(2).peer_id)),
        Presence(states=((_ID, PresenceState.HERE),)),
    )
    return [encode_frame(frame) for frame in frames]


def good_auth(challenge: Challenge) -> Auth:
    return answer_challenge(
        challenge, credentials(_PEER), "127.0.0.1", client_nonce(wall_us(), bytes(8))
    )


def signed_map() -> bytes:
    entries = tuple(
        RelayEntry(f"wss://relay-{n}.example/relay", key(n).peer_id, "eu", n)
        for n in (1, 2, 3)
    )
    unsigned = RelayMap(network=NETWORK.peer_id, version=7, entries=entries)
    return sign_map(unsigned, NETWORK.sign).encoded


def signed_revocations() -> bytes:
    unsigned = Revocations(
        network=NETWORK.peer_id, version=3, peers=frozenset({_ID, key(2).peer_id})
    )
    return sign_revocations(unsigned, NETWORK.sign).encoded


def mutated(rng: random.Random, good: list[bytes]) -> bytes:
    """Return one of these with one to three changes of any kind."""
    raw = bytearray(rng.choice(good))
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        at = rng.randrange(len(raw) + 1)
        match rng.randrange(7):
            case 0 if at < len(raw):
                raw[at] ^= 1 << rng.randrange(8)
            case 1 if at < len(raw):
                raw[at] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                del raw[at:]
            case 3:
                raw[at:at] = rng.randbytes(rng.choice((1, 2, 4, 8, 300)))
            case 4:
                raw += raw[: rng.randrange(len(raw) + 1)]
            case 5:
                raw[at:] = rng.choice(good)[at:]
            case _:
                for place in range(min(4, len(raw))):  # where lengths and flags are
                    raw[place] = rng.randrange(256)
    return bytes(raw)


class Parsers:
    """Everything that reads bytes of strangers, each with its own good bytes."""

    def __init__(self) -> None:
        self.world = SwitchWorld(max_queued_bytes=2_000_000)
        self.peer = self.world.enter(_ID)
        self.n = 0
        frames = good_frames()
        challenge = Challenge(relay_id=RELAY.peer_id, nonce=bytes(32), time_ms=1)
        auth = encode_auth(good_auth(challenge))
        deny = encode_deny(Deny(code=DenyCode.BUSY, retry_ms=5, text="busy"))
        welcome = b"\x22" + bytes(range(200))
        self.readers: list[tuple[Callable[[bytes], object], list[bytes]]] = [
            (self.as_peer, frames),
            (self.as_peer, frames),
            (self.as_peer, frames),
            (parse_frame, frames),
            (lambda raw: Inbox().put_message(raw), frames),
            (parse_auth, [auth]),
            (parse_challenge, [encode_challenge(challenge)]),
            (lambda raw: parse_welcome(raw, RELAY.peer_id), [welcome]),
            (parse_deny, [deny]),
            (parse_token, [token_for(_PEER)]),
            (parse_map, [signed_map()]),
            (parse_revocations, [signed_revocations()]),
        ]

    def as_peer(self, raw: bytes) -> None:
        """Let a joined peer say this."""
        self.n += 1
        now = self.n * 0.001
        try:
            self.world.switch.receive(self.peer, raw, now)
        except ProtocolError:
            self.world.leave(self.peer, now)
            self.peer = self.world.enter(_ID, now)
            raise
        if self.n % 50 == 0 or self.world.ended:
            self.world.ended.clear()
            self.world.written(self.peer, now)
            self.world.switch.tick(now)

    def run(self, n_frames: int, seed: int) -> int:
        """Hand out so many mutants; how many were refused."""
        rng, refused = random.Random(seed), 0
        for _ in range(n_frames):
            read, good = rng.choice(self.readers)
            try:
                read(mutated(rng, good))
            except ProtocolError:
                refused += 1
        return refused


def run_parsers(n: int) -> dict[str, int]:
    parsers = Parsers()
    parsers.run(_WARM_UP, seed=1)
    before = footprint(os.getpid()).resident_bytes
    refused = parsers.run(n, seed=2)
    counters = parsers.world.switch.counters
    parsers.world.leave(parsers.peer, parsers.n * 0.001)
    if counters.accepted != counters.n_settled:
        raise SystemExit("frames without a fate")
    return {
        "n": n,
        "refused": refused,
        "grown_bytes": footprint(os.getpid()).resident_bytes - before,
        "internal_errors": 0,
    }


async def knock(relay: object, rng: random.Random, hello: bytes) -> None:
    """Open one connection and go wrong at a random place of the way in."""
    async with raw_peer(relay) as raw:
        try:
            match rng.randrange(4):
                case 0:
                    request = raw.protocol.connect().serialize()
                    await raw.stream.send_all(mutated(rng, [request]))
                case 1:
                    await raw.stream.send_all(mutated(rng, [hello]))
                case 2:
                    await raw.upgrade()
                    challenge = parse_challenge(await raw.message())
                    auth = encode_auth(good_auth(challenge))
                    await raw.send(mutated(rng, [auth, *good_frames()]))
                case _:
                    await raw.join(_PEER)
                    for _ in range(8):
                        raw.protocol.send_binary(mutated(rng, good_frames()))
                    wire = b"".join(raw.protocol.data_to_send())
                    if rng.random() < 0.5:  # the WebSocket layer too
                        wire = mutated(rng, [wire])
                    await raw.stream.send_all(wire)
            await raw.stream.send_eof()
            await raw.close_code()
        except (trio.BrokenResourceError, AssertionError):
            return


async def run_port(n: int) -> dict[str, int]:
    rng = random.Random(3)
    hello = bytes.fromhex("16030100c2010000be0303") + rng.randbytes(191)
    found = {"n": n, "refused": 0, "internal_errors": 0, "grown_bytes": 0}
    gate = GateLimits(all_s=1e6, all_burst=1e6)
    async with (
        running_relay(plain_config(gate=gate)) as plain,
        running_relay(tls_config(gate=gate)) as secure,
    ):
        relays = (plain, plain, plain, secure)
        before = 0
        for number in range(n):
            if number == n // 5:
                before = footprint(os.getpid()).resident_bytes
            relay = rng.choice(relays)
            with trio.fail_after(20):
                await knock(relay, rng, hello)
        found["grown_bytes"] = footprint(os.getpid()).resident_bytes - before
        for relay in (plain, secure):
            counters = relay.counters
            found["refused"] += counters.refused.total() + counters.left.total()
            found["internal_errors"] += counters.refused["internal error"]
        async with raw_peer(plain) as raw:  # it still serves
            await raw.join(_PEER)
    return found


def main() -> None:
    """Run what the arguments name; print what came of it."""
    kind, count = sys.argv[1:]
    found = (
        run_parsers(int(count)) if kind == "parsers" else trio.run(run_port, int(count))
    )
    print(json.dumps(found | {"asserts": int(__debug__)}))


if __name__ == "__main__":
    main()
