"""What a peer signs about itself: its session key, where it is, what it can do.

The record is the payload of the Noise handshake (the proof that the X25519 key belongs
to the Ed25519 identity) and what the market hands out about holders. It carries no time
that anyone must agree on: `not_after_us` is a hint for whoever stores records; which of
two is newer, `sequence` tells.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mobile_worker.errors import RecordError
from mobile_worker.session.signed import open_signed, peer_id_of, seal_signed
from relay.keys import PeerId
from relay.tokens import Role

__all__ = ["MAX_ADDRESSES", "PeerRecord", "parse_record", "sign_record"]

MAX_ADDRESSES = 8  # of each kind in one record
_DOMAIN = b"p2pmoe peer record v1\0"
_VERSION = 1
_N_VALUES = 10
_U63 = 1 << 63


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRecord:
    """One peer's word about itself.

    static_key: X25519 public key. relays: URLs of its home relays. direct_addresses:
    `host:port` where it takes direct links. self_test: SHA-256 of its arithmetic over
    fixed vectors. encoded: the signed bytes; empty until signed.
    """

    peer_id: PeerId
    static_key: bytes
    role: Role
    relays: tuple[str, ...]
    direct_addresses: tuple[str, ...]
    capabilities: int
    self_test: bytes
    not_after_us: int
    sequence: int
    encoded: bytes = field(default=b"", repr=False)


def sign_record(record: PeerRecord, sign: Callable[[bytes], bytes]) -> PeerRecord:
    """Return the record with its signed bytes in `encoded`.

    Raises:
        RecordError: it is too long.
    """
    values = (
        _VERSION,
        record.peer_id,
        record.static_key,
        int(record.role),
        record.relays,
        record.direct_addresses,
        record.capabilities,
        record.self_test,
        record.not_after_us,
        record.sequence,
    )
    return replace(record, encoded=seal_signed(_DOMAIN, values, sign))


def parse_record(encoded: bytes) -> PeerRecord:
    """Return the verified record of signed bytes.

    Raises:
        RecordError: malformed, out of bounds, or not signed by its own peer id.
    """
    values = open_signed(_DOMAIN, encoded, signer=1)
    if len(values) != _N_VALUES or values[0] != _VERSION:
        raise RecordError(f"a record with {len(values)} values, version {values[0]!r}")
    role = _integer(values[3], 0xFF)
    if role not in set(Role):
        raise RecordError(f"unknown role {role}")
    return PeerRecord(
        peer_id=peer_id_of(values[1]),
        static_key=_bytes32(values[2]),
        role=Role(role),
        relays=_strings(values[4]),
        direct_addresses=_strings(values[5]),
        capabilities=_integer(values[6], 0xFFFF_FFFF),
        self_test=_bytes32(values[7]),
        not_after_us=_integer(values[8], _U63),
        sequence=_integer(values[9], _U63),
        encoded=encoded,
    )


def _integer(value: object, maximum: int) -> int:
    if type(value) is not int or not 0 <= value <= maximum:
        raise RecordError(f"{value!r:.40} is no integer up to {maximum}")
    return value


def _bytes32(value: object) -> bytes:
    if not isinstance(value, bytes) or len(value) != 32:
        raise RecordError(f"{value!r:.40} is not 32 bytes")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, tuple) or len(value) > MAX_ADDRESSES:
        raise RecordError(f"{value!r:.40} is no short list of addresses")
    strings = tuple(item for item in value if isinstance(item, str))
    if len(strings) != len(value):
        raise RecordError("an address is no string")
    return strings
