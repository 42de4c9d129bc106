"""Write golden bytes of links: `python -m tests.vectors.make_protocol`.

`protocol/golden.json`: frames of the relay, the way in, peer records and peer ids. Keys
are drawn from names.
"""

import dataclasses
import json
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from mobile_worker.session.descriptor import NetworkDescriptor, sign_descriptor
from mobile_worker.session.identity import Identity
from mobile_worker.session.records import PeerRecord, sign_record
from relay.errors import WeakKey
from relay.frame_types import (
    Frame,
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
    SeenFrom,
    Send,
    Status,
    StatusCode,
    Watch,
)
from relay.frames import encode_frame
from relay.greetings import (
    Challenge,
    Deny,
    Welcome,
    encode_auth,
    encode_challenge,
    encode_deny,
    encode_welcome,
)
from relay.handshake import Admitted, Credentials, answer_challenge, sign_welcome
from relay.keys import PeerId, SigningKey, check_peer_id
from relay.tickets import ticket_subprotocol
from relay.tokens import RateClass, Role

__all__ = [
    "FILE",
    "FRAMES",
    "LIMITS",
    "NETWORK",
    "drawn",
    "golden",
    "identity_of",
    "main",
    "peer",
    "plain",
    "record_of",
    "way_in",
]

FILE = Path(__file__).parent / "protocol" / "golden.json"
NETWORK = SigningKey.from_seed(sha256(b"network").digest())
MADE_MS = 1_793_491_200_000
LIMITS = Limits(
    max_payload=65_535,
    bytes_s=2_000_000,
    burst=4_000_000,
    frames_s=500,
    queue_bytes=262_144,
    max_ttl_ms=60_000,
    lease_s=0,
)


def drawn(name: str, number: int, size: int) -> bytes:
    """Return at most 32 bytes that are as good as random."""
    return sha256(f"{name} {number}".encode()).digest()[:size]


def identity_of(name: str) -> Identity:
    """Return the two key pairs of a name."""
    seeds = (sha256(f"{name} {kind}".encode()).digest() for kind in ("ed", "x"))
    return Identity.from_seeds(*seeds)


def peer(name: str) -> PeerId:
    return identity_of(name).peer_id


def plain(value: object) -> object:
    """Return a value as JSON has it: bytes as hex, enums as numbers."""
    if isinstance(value, bytes):
        return value.hex()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name))
            for field in dataclasses.fields(value)
        }
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return [[plain(key), plain(item)] for key, item in value.items()]
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, int):
        number = int(value)
        return str(number) if abs(number) >= 1 << 53 else number
    raise TypeError(f"{value!r} has no plain form")


def data_frame(kind: type[Send] | type[Recv], n: int, **changes: object) -> Frame:
    values = {
        "destination" if kind is Send else "source": peer("other"),
        "payload": bytes(range(n)),
        "frame_class": FrameClass.INTERACTIVE,
        "flow": 0xDEAD_BEEF,
        "ttl_ms" if kind is Send else "age_ms": 1999,
        "nack": True,
    }
    return kind(**(values | changes))


FRAMES: dict[str, Frame] = {
    "ping": Ping(nonce=bytes(range(8))),
    "pong": Pong(nonce=bytes(range(8, 16))),
    "status": Status(code=StatusCode.RATE_LIMITED, text="zu schnell: 1 µs"),
    "restarting": Restarting(reconnect_in_ms=250, try_for_ms=60_000),
    "limits": LIMITS,
    "send": data_frame(Send, 20),
    "send_empty": data_frame(Send, 0, frame_class=FrameClass.CONTROL, nack=False),
    "recv": data_frame(Recv, 20),
    "recv_bulk": data_frame(Recv, 1, frame_class=FrameClass.BULK, nack=False),
    "nack": Nack(
        destination=peer("other"),
        reason=NackReason.QUEUE_FULL,
        count=3,
        flow=7,
        retry_ms=500,
    ),
    "gone": Gone(peer=peer("other"), reason=GoneReason.SLOW),
    "watch": Watch(peers=(peer("one"), peer("other"))),
    "watch_none": Watch(peers=()),
    "presence": Presence(
        states=((peer("one"), PresenceState.HERE), (peer("other"), PresenceState.SLOW))
    ),
    "seen_from": SeenFrom(
        prefixes=(
            (peer("one"), "203.0.113.0/24"),
            (peer("other"), "2001:db8:77::/48"),
            (peer("third"), ""),
        )
    ),
}


def way_in() -> dict[str, object]:
    """A challenge, the proof, the welcome and a denial, with all that made them."""
    relay, own = identity_of("relay"), identity_of("one")
    challenge = Challenge(
        relay_id=relay.peer_id, nonce=drawn("challenge", 0, 32), time_ms=MADE_MS
    )
    nonce = MADE_MS.to_bytes(8, "big") + drawn("client", 0, 8)
    token, host = b"a token", "relay.example"
    credentials = Credentials(
        peer_id=own.peer_id, sign=own.sign, role=Role.WORKER, token=token
    )
    auth = answer_challenge(challenge, credentials, host, nonce)
    admitted = Admitted(
        peer_id=own.peer_id,
        role=Role.WORKER,
        rate_class=RateClass.PHONE,
        caps=0,
        client_nonce=nonce,
        skew_us=-1500,
    )
    unsigned = Welcome(
        relay_id=relay.peer_id,
        session=drawn("session", 0, 16),
        observed_address="203.0.113.9:4711",
        limits=LIMITS,
        map_version=12,
        skew_us=-1500,
        descriptor=descriptor(),
        signature=b"",
        ticket=b"\xff\xfe\xfd" * 24 + b"\xfb",
    )
    welcome = sign_welcome(unsigned, challenge, admitted, relay.sign)
    return {
        "host": host,
        "token": token.hex(),
        "nonce": nonce.hex(),
        "wall_ms": MADE_MS,
        "challenge": encode_challenge(challenge).hex(),
        "auth": encode_auth(auth).hex(),
        "welcome": encode_welcome(welcome).hex(),
        "welcome_fields": plain(welcome),
        "subprotocol": ticket_subprotocol(welcome.ticket),
        "deny": encode_deny(Deny(code=12, retry_ms=3000, text="voll")).hex(),
    }


def descriptor(*, market: bool = True) -> bytes:
    """Return a signed network descriptor."""
    return sign_descriptor(
        NetworkDescriptor(
            network=NETWORK.peer_id,
            market=peer("market") if market else None,
            ledger=peer("ledger") if market else None,
        ),
        NETWORK.sign,
    ).encoded


def record_of(name: str, **changes: object) -> PeerRecord:
    """Return the signed record of a name."""
    own = identity_of(name)
    values = {
        "peer_id": own.peer_id,
        "static_key": own.static_key,
        "role": Role.WORKER,
        "relays": ("wss://relay.example/relay",),
        "direct_addresses": (),
        "capabilities": 0,
        "self_test": drawn("self-test", 0, 32),
        "not_after_us": 0,
        "sequence": 1,
    }
    return sign_record(PeerRecord(**(values | changes)), own.sign)


def records() -> dict[str, object]:
    """Records and descriptors that are good, with what they say."""
    long = {
        "direct_addresses": ("192.0.2.1:4433", "[2001:db8::1]:4433"),
        "role": Role.HUB,
        "capabilities": 2**32 - 1,
        "not_after_us": 2**63,
        "sequence": MADE_MS,
    }
    made = [record_of("one"), record_of("other", **long), record_of("third", relays=())]
    return {
        "records": [plain(record) for record in made],
        "descriptor": descriptor().hex(),
        "empty_descriptor": descriptor(market=False).hex(),
        "market": peer("market").hex(),
        "ledger": peer("ledger").hex(),
    }


def peer_ids() -> list[dict[str, object]]:
    """Keys, and whether they can be somebody's."""
    p = 2**255 - 19
    eighth = "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"
    y8 = int.from_bytes(bytes.fromhex(eighth), "little")
    ys = [0, 1, 2, 3, 4, 5, y8, p - y8, p - 2, p - 1, p, p + 1, p + 2, 2**255 - 1]
    raws = [(y | sign << 255).to_bytes(32, "little") for y in ys for sign in (0, 1)]
    raws += [drawn("key", n, 32) for n in range(20)]
    raws += [peer("one"), peer("one")[:31], peer("one") + b"\0", b""]
    made: list[dict[str, object]] = []
    for raw in raws:
        try:
            check_peer_id(raw)
            made.append({"raw": raw.hex(), "good": True})
        except WeakKey:
            made.append({"raw": raw.hex(), "good": False})
    return made


def names() -> dict[str, object]:
    """The secrets of the names that occur, for tests alone."""
    made: dict[str, object] = {}
    for name in ("one", "other", "relay"):
        seeds = [sha256(f"{name} {kind}".encode()).digest() for kind in ("ed", "x")]
        static = X25519PrivateKey.from_private_bytes(seeds[1])
        made[name] = {
            "seeds": [seed.hex() for seed in seeds],
            "peer_id": peer(name).hex(),
            "static_key": static.public_key().public_bytes_raw().hex(),
            "instance": drawn(f"instance {name}", 0, 8).hex(),
            "record": record_of(name).encoded.hex(),
        }
    return made


def golden() -> dict[str, object]:
    """Return everything, as it is written."""
    return {
        "network": NETWORK.peer_id.hex(),
        "names": names(),
        "frames": {
            name: {"fields": plain(frame), "frame": encode_frame(frame).hex()}
            for name, frame in FRAMES.items()
        },
        "way_in": way_in(),
        "records": records(),
        "peer_ids": peer_ids(),
    }


def main() -> None:
    """Write the file."""
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps(golden(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
