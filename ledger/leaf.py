"""The leaf: 79 bytes for one expert served, built independently by both ends.

Contract: big-endian, no padding, one encoding per value:

    version u8 | tab 8 | serving u32 | request u64 | layer u16 | expert u16 | rows u16
    | price_epoch u32 | x_hash 16 | out_hash 16 | nonce 8 | amount_uc i64

`rows` are the rows computed (1..65535). `x_hash` and `out_hash` are SHA-256, cut to
16 bytes, of the coded rows sent and the coded results returned. `amount_uc` is
rows * unit price, in [0, 2^53). Pure; never guesses a field.

Source: design "Ledger: receipts, accounts, payouts", leaf.
"""

import struct
from dataclasses import dataclass

from ledger.amounts import MAX_AMOUNT_UC
from ledger.errors import FormatRefused

__all__ = [
    "LEAF_BYTES",
    "LEAF_STRUCT",
    "LEAF_VERSION",
    "Leaf",
    "LeafPacker",
    "split_leaves",
]

LEAF_VERSION = 1
LEAF_STRUCT = struct.Struct(">B8sIQHHHI16s16s8sq")
LEAF_BYTES = LEAF_STRUCT.size  # 79
_NO_HASH = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One expert served: `rows` rows of one expert in one dispatch."""

    tab: bytes  # [8]
    serving: int  # u32, numbered by the backbone within the tab
    request: int  # u64
    layer: int  # u16
    expert: int  # u16
    rows: int  # u16, >= 1
    price_epoch: int  # u32
    x_hash: bytes  # [16]
    out_hash: bytes  # [16]
    nonce: bytes  # [8]
    amount_uc: int  # [0, 2^53)

    def pack(self) -> bytes:
        """Return the 79 bytes.

        Raises:
            FormatRefused: a field is out of its bounds.
        """
        _check(self.tab, self.x_hash, self.out_hash, self.nonce)
        _check_numbers(self.rows, self.amount_uc)
        try:
            return LEAF_STRUCT.pack(
                LEAF_VERSION,
                self.tab,
                self.serving,
                self.request,
                self.layer,
                self.expert,
                self.rows,
                self.price_epoch,
                self.x_hash,
                self.out_hash,
                self.nonce,
                self.amount_uc,
            )
        except struct.error as exc:
            raise FormatRefused(f"leaf {self.serving}: {exc}") from exc

    @staticmethod
    def parse(raw: bytes) -> "Leaf":
        """Read 79 bytes back.

        Raises:
            FormatRefused: wrong length or version, no rows, amount out of bounds.
        """
        if len(raw) != LEAF_BYTES:
            raise FormatRefused(f"leaf of {len(raw)} bytes, expected {LEAF_BYTES}")
        version, *fields = LEAF_STRUCT.unpack(raw)
        if version != LEAF_VERSION:
            raise FormatRefused(f"leaf version {version}")
        leaf = Leaf(
            tab=fields[0],
            serving=fields[1],
            request=fields[2],
            layer=fields[3],
            expert=fields[4],
            rows=fields[5],
            price_epoch=fields[6],
            x_hash=fields[7],
            out_hash=fields[8],
            nonce=fields[9],
            amount_uc=fields[10],
        )
        _check_numbers(leaf.rows, leaf.amount_uc)
        return leaf


class LeafPacker:
    """Packs the leaves of one dispatch, which share these fields, without a `Leaf`."""

    __slots__ = ("_epoch", "_layer", "_nonce", "_request", "_tab")

    def __init__(
        self, *, tab: bytes, request: int, layer: int, price_epoch: int, nonce: bytes
    ) -> None:
        """Take what all leaves have in common; the widths are those of `Leaf`.

        Raises:
            FormatRefused: tab or nonce are not 8 bytes.
        """
        if len(tab) != 8 or len(nonce) != 8:
            _check(tab, _NO_HASH, _NO_HASH, nonce)
        self._tab, self._nonce = tab, nonce
        self._request, self._layer, self._epoch = request, layer, price_epoch

    def pack(
        self, serving: int, call: tuple[int, int, int], x_hash: bytes, out_hash: bytes
    ) -> bytes:
        """Return the 79 bytes of one leaf.

        Args:
            serving: its number in the tab.
            call: expert, rows and amount in micro-credits.
            x_hash: 16 bytes.
            out_hash: 16 bytes.

        Raises:
            FormatRefused: a field is out of its bounds.
        """
        expert, rows, amount_uc = call
        if len(x_hash) != 16 or len(out_hash) != 16:
            _check(self._tab, x_hash, out_hash, self._nonce)
        if rows < 1 or not 0 <= amount_uc <= MAX_AMOUNT_UC:
            _check_numbers(rows, amount_uc)
        try:
            return LEAF_STRUCT.pack(
                LEAF_VERSION,
                self._tab,
                serving,
                self._request,
                self._layer,
                expert,
                rows,
                self._epoch,
                x_hash,
                out_hash,
                self._nonce,
                amount_uc,
            )
        except struct.error as exc:
            raise FormatRefused(f"leaf {serving}: {exc}") from exc


def split_leaves(block: bytes) -> list[bytes]:
    """Cut a block of packed leaves into leaves of 79 bytes.

    Raises:
        FormatRefused: the block is no whole number of leaves.
    """
    if len(block) % LEAF_BYTES:
        raise FormatRefused(f"{len(block)} bytes are no whole number of leaves")
    return [
        block[start : start + LEAF_BYTES] for start in range(0, len(block), LEAF_BYTES)
    ]


def _check(tab: bytes, x_hash: bytes, out_hash: bytes, nonce: bytes) -> None:
    lengths = (len(tab), len(x_hash), len(out_hash), len(nonce))
    if lengths != (8, 16, 16, 8):
        raise FormatRefused(f"leaf fields of {lengths} bytes, expected (8, 16, 16, 8)")


def _check_numbers(rows: int, amount_uc: int) -> None:
    if rows < 1:
        raise FormatRefused(f"leaf of {rows} rows")
    if not 0 <= amount_uc <= MAX_AMOUNT_UC:
        raise FormatRefused(f"leaf of {amount_uc} micro-credits")
