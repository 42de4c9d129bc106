r"""The grant: the ledger's signed permission for a backbone to owe a worker.

Contract: one canonical binary encoding, named by its SHA-256, signed by the ledger:

    magic "PMGR" | version u8 | network 32 | manifest_hash 32 | worker 32 | backbone 32
    | price_table_hash 32 | ceiling_uc i64 | expiry_us u64 | float_leaves u32 | serial 8

The backbone's money up to `ceiling_uc` is reserved before the grant is signed. The sum
of what is claimed under one grant never passes the ceiling. `float_leaves` is how many
servings may stay without a countersigned voucher; both ends stop there. `serial` is
random: two grants never share a name. Signed bytes: `"p2pmoe/grant/v1\0" || grant`.
"""

import struct
from collections.abc import Callable
from dataclasses import astuple, dataclass
from hashlib import sha256

from ledger.amounts import check_amount
from ledger.errors import FormatRefused
from ledger.keys import verify

__all__ = ["GRANT_BYTES", "GRANT_DOMAIN", "Grant", "sign_grant", "verify_grant"]

GRANT_DOMAIN = b"p2pmoe/grant/v1\0"
_MAGIC, _VERSION = b"PMGR", 1
_LAYOUT = struct.Struct(">4sB32s32s32s32s32sqQI8s")
GRANT_BYTES = _LAYOUT.size
_LENGTHS = (32, 32, 32, 32, 32, 8)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """Who may owe whom, at which prices, how much, until when."""

    network: bytes  # [32]
    manifest_hash: bytes  # [32]
    worker: bytes  # [32]
    backbone: bytes  # [32]
    price_table_hash: bytes  # [32]
    ceiling_uc: int  # micro-credits reserved
    expiry_us: int  # microseconds since 1970 UTC
    float_leaves: int  # u32
    serial: bytes  # [8]

    def __post_init__(self) -> None:
        """Check the length or bound of every field."""
        lengths = tuple(
            len(part)
            for part in (
                self.network,
                self.manifest_hash,
                self.worker,
                self.backbone,
                self.price_table_hash,
                self.serial,
            )
        )
        if lengths != _LENGTHS:
            raise FormatRefused(f"grant fields of {lengths} bytes, expected {_LENGTHS}")
        check_amount(self.ceiling_uc)
        if not 0 <= self.expiry_us < 1 << 63 or not 0 <= self.float_leaves < 1 << 32:
            raise FormatRefused(f"grant until {self.expiry_us}, {self.float_leaves}")

    def pack(self) -> bytes:
        """Return the canonical bytes."""
        return _LAYOUT.pack(_MAGIC, _VERSION, *astuple(self))

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the canonical bytes: the grant's name in vouchers."""
        return sha256(self.pack()).digest()

    @staticmethod
    def parse(raw: bytes) -> "Grant":
        """Read canonical bytes back.

        Raises:
            FormatRefused: wrong magic, version, length or a field out of bounds.
        """
        if len(raw) != GRANT_BYTES:
            raise FormatRefused(f"grant of {len(raw)} bytes, expected {GRANT_BYTES}")
        magic, version, *fields = _LAYOUT.unpack(raw)
        if magic != _MAGIC or version != _VERSION:
            raise FormatRefused(f"grant: magic {magic!r} version {version}")
        return Grant(
            network=fields[0],
            manifest_hash=fields[1],
            worker=fields[2],
            backbone=fields[3],
            price_table_hash=fields[4],
            ceiling_uc=fields[5],
            expiry_us=fields[6],
            float_leaves=fields[7],
            serial=fields[8],
        )


def sign_grant(raw: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the ledger's 64-byte signature over the packed grant."""
    return sign(GRANT_DOMAIN + raw)


def verify_grant(raw: bytes, signature: bytes, ledger: bytes) -> Grant:
    """Check the ledger's signature over the bytes as received, then read them.

    Raises:
        KeyRefused, SignatureRefused, FormatRefused: see there.
    """
    verify(ledger, GRANT_DOMAIN, raw, signature)
    return Grant.parse(raw)
