r"""The price table: what a row of each expert costs in one price epoch.

Contract: one canonical binary encoding, signed by the market, named by its SHA-256:

    magic "PMPT" | version u8 | network 32 | manifest_hash 32 | epoch u32
    | base_uc i64 | n u32 | n * (expert u32, multiplier u32 Q16.16)

with expert = layer << 16 | index, sorted, no expert twice, no multiplier of exactly 1.0
(that is what absence means). The unit price is `base_uc * multiplier`, rounded down to
whole micro-credits. Integers only. Signed bytes are `"p2pmoe/prices/v1\0" || table`.
"""

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from types import MappingProxyType

from ledger.amounts import MAX_AMOUNT_UC, check_amount
from ledger.errors import AmountRefused, FormatRefused
from ledger.keys import verify

__all__ = [
    "MAX_PRICE_TABLE_BYTES",
    "ONE_Q16",
    "PRICE_DOMAIN",
    "PRICE_HEAD_BYTES",
    "PriceTable",
    "read_base_uc",
    "sign_price_table",
    "verify_price_table",
]

PRICE_DOMAIN = b"p2pmoe/prices/v1\0"
ONE_Q16 = 1 << 16
_MAGIC, _VERSION = b"PMPT", 1
_HEAD = struct.Struct(">4sB32s32sIqI")
_ROW = struct.Struct(">II")
_MAX_ROWS = 1 << 17  # 128 Ki experts
PRICE_HEAD_BYTES = _HEAD.size
MAX_PRICE_TABLE_BYTES = _HEAD.size + _MAX_ROWS * _ROW.size


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Prices of one model in one epoch; hashable by `content_hash`."""

    network: bytes  # [32]
    manifest_hash: bytes  # [32]
    epoch: int  # u32
    base_uc: int  # micro-credits a row
    multipliers: Mapping[int, int] = field(default_factory=dict)  # packed -> Q16.16

    def __post_init__(self) -> None:
        """Check bounds and keep the multipliers sorted and read-only."""
        if len(self.network) != 32 or len(self.manifest_hash) != 32:
            raise FormatRefused("price table: network and manifest are 32 bytes each")
        if not 0 <= self.epoch < 1 << 32 or len(self.multipliers) > _MAX_ROWS:
            raise FormatRefused(
                f"price table: epoch {self.epoch}, {len(self.multipliers)} multipliers"
            )
        check_amount(self.base_uc)
        for expert, multiplier in self.multipliers.items():
            if not 0 <= expert < 1 << 32 or not 0 <= multiplier < 1 << 32:
                raise FormatRefused(f"price of expert {expert}: {multiplier}")
        rows = {
            expert: multiplier
            for expert, multiplier in sorted(self.multipliers.items())
            if multiplier != ONE_Q16
        }
        object.__setattr__(self, "multipliers", MappingProxyType(rows))

    def __hash__(self) -> int:
        """Hash the identifying fields; the multipliers follow from them."""
        return hash((self.network, self.manifest_hash, self.epoch, self.base_uc))

    def unit_price(self, layer: int, expert: int) -> int:
        """Return micro-credits for one row of the expert, rounded down."""
        multiplier = self.multipliers.get(layer << 16 | expert, ONE_Q16)
        return self.base_uc * multiplier >> 16

    def amount(self, layer: int, expert: int, rows: int) -> int:
        """Return micro-credits for `rows` rows of the expert.

        Raises:
            AmountRefused: the amount passes 2^53 - 1.
        """
        amount_uc = rows * self.unit_price(layer, expert)
        if not 0 <= amount_uc <= MAX_AMOUNT_UC:
            raise AmountRefused(f"{rows} rows of expert {layer}/{expert}: {amount_uc}")
        return amount_uc

    def pack(self) -> bytes:
        """Return the canonical bytes."""
        head = _HEAD.pack(
            _MAGIC,
            _VERSION,
            self.network,
            self.manifest_hash,
            self.epoch,
            self.base_uc,
            len(self.multipliers),
        )
        return head + b"".join(_ROW.pack(*row) for row in self.multipliers.items())

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the canonical bytes: the table's name in grants and vouchers."""
        return sha256(self.pack()).digest()

    @staticmethod
    def parse(raw: bytes) -> "PriceTable":
        """Read canonical bytes back.

        Raises:
            FormatRefused: wrong magic, version, length, order, or not canonical.
        """
        if len(raw) < _HEAD.size:
            raise FormatRefused(f"price table of {len(raw)} bytes")
        magic, version, network, manifest, epoch, base_uc, n = _HEAD.unpack_from(raw)
        if magic != _MAGIC or version != _VERSION:
            raise FormatRefused(f"price table: magic {magic!r} version {version}")
        if n > _MAX_ROWS or len(raw) != _HEAD.size + n * _ROW.size:
            raise FormatRefused(f"price table: {n} multipliers in {len(raw)} bytes")
        table = PriceTable(
            network=network,
            manifest_hash=manifest,
            epoch=epoch,
            base_uc=base_uc,
            multipliers=dict(_ROW.iter_unpack(raw[_HEAD.size :])),
        )
        if table.pack() != raw:
            raise FormatRefused("price table is not in canonical order")
        return table


def read_base_uc(head: bytes) -> int:
    """Return the base price of a packed table from its first `PRICE_HEAD_BYTES`.

    Raises:
        FormatRefused, AmountRefused: no price table's head.
    """
    if len(head) < _HEAD.size:
        raise FormatRefused(f"price table of {len(head)} bytes")
    magic, version, _, _, _, base_uc, _ = _HEAD.unpack_from(head)
    if magic != _MAGIC or version != _VERSION:
        raise FormatRefused(f"price table: magic {magic!r} version {version}")
    return check_amount(base_uc)


def sign_price_table(raw: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the market's 64-byte signature over the packed table."""
    return sign(PRICE_DOMAIN + raw)


def verify_price_table(raw: bytes, signature: bytes, market: bytes) -> PriceTable:
    """Check the market's signature over the bytes as received, then read them.

    Raises:
        KeyRefused, SignatureRefused, FormatRefused: see there.
    """
    verify(market, PRICE_DOMAIN, raw, signature)
    return PriceTable.parse(raw)
