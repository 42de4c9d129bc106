r"""The beacon: what decides, after the fact, which servings are looked at again.

Contract: a beacon is cast over the vouchers filed since the one before it, so nobody
who made one of them could know what it would choose. Its statement has one encoding:

    magic "PMBE" | version u8 | network 32 | number u64 | previous 32 | log size u64
    | log root 32

`previous` is the value of the beacon before (zeros for the first), size and root are
those of the newest checkpoint of the log (zeros before there is one). The ledger signs
`"p2pmoe/beacon/v1\0" || statement`; the beacon's **value** is the SHA-256 of the
64-byte signature, the **seed** for a filed voucher SHA-256(value || its hash).

A rate is a share of *rows*, so a serving of many rows is chosen as often as many of one
row: of every `one_in` consecutive rows of a filing the seed names one, and the serving
that computed it is audited. A worker below `NEWCOMER_PASSES` has at least one audit in
every filing. At most `MAX_OF_FILING` of one filing: beyond, the rate sinks. Pure.

Source: design/06, "Verification"; ADR 51.
"""

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import accumulate

from ledger.errors import FormatRefused
from ledger.keys import KEY_BYTES, verify

__all__ = [
    "BEACON_DOMAIN",
    "MAX_OF_FILING",
    "NEWCOMER_PASSES",
    "TRUSTED_PASSES",
    "Beacon",
    "beacon_value",
    "choose_rows",
    "one_in",
    "places_of",
    "sign_beacon",
    "verify_beacon",
    "voucher_seed",
]

BEACON_DOMAIN = b"p2pmoe/beacon/v1\0"
NEWCOMER_PASSES = 200
TRUSTED_PASSES = 2_000
MAX_OF_FILING = 64
_ONE_IN_OF_NEWCOMERS, _ONE_IN, _ONE_IN_OF_TRUSTED = 20, 100, 500
_MAGIC, _VERSION = b"PMBE", 1
_LAYOUT = struct.Struct(">4sB32sQ32sQ32s")
_NUMBERS = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Beacon:
    """What the ledger signs, so that the signature can be drawn from."""

    network: bytes  # [32]
    number: int  # from 1, without a gap
    previous: bytes  # [32] value of the beacon before
    log_size: int  # of the newest checkpoint, 0 without one
    log_root: bytes  # [32]

    def __post_init__(self) -> None:
        """Check lengths and numbers.

        Raises:
            FormatRefused: they are none of a beacon.
        """
        for raw in (self.network, self.previous, self.log_root):
            if len(raw) != KEY_BYTES:
                raise FormatRefused(f"beacon: a field of {len(raw)} bytes")
        for number in (self.number, self.log_size):
            if not 0 <= number <= _NUMBERS:
                raise FormatRefused(f"beacon: a number of {number}")

    def pack(self) -> bytes:
        """Return the canonical bytes."""
        return _LAYOUT.pack(
            _MAGIC,
            _VERSION,
            self.network,
            self.number,
            self.previous,
            self.log_size,
            self.log_root,
        )


def sign_beacon(beacon: Beacon, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the ledger's 64-byte signature."""
    return sign(BEACON_DOMAIN + beacon.pack())


def verify_beacon(beacon: Beacon, signature: bytes, ledger: bytes) -> bytes:
    """Check the ledger's signature and return the beacon's 32-byte value.

    Raises:
        KeyRefused, SignatureRefused: it is not the ledger's.
    """
    verify(ledger, BEACON_DOMAIN, beacon.pack(), signature)
    return beacon_value(signature)


def beacon_value(signature: bytes) -> bytes:
    """Return the 32 bytes that a beacon is worth."""
    return sha256(signature).digest()


def voucher_seed(value: bytes, voucher: bytes) -> bytes:
    """Return the 32-byte seed that a beacon gives a filed voucher."""
    return sha256(value + voucher).digest()


def one_in(passes: int) -> int:
    """Return of how many rows one is drawn, for a worker with so many passed audits."""
    if passes < NEWCOMER_PASSES:
        return _ONE_IN_OF_NEWCOMERS
    return _ONE_IN if passes < TRUSTED_PASSES else _ONE_IN_OF_TRUSTED


def choose_rows(seed: bytes, n_rows: int, passes: int) -> tuple[int, ...]:
    """Return the rows of a filing that are drawn, counted from 0, in order.

    Args:
        seed: of the voucher, see `voucher_seed`.
        n_rows: rows that the filing added.
        passes: audits that its worker has passed.
    """
    if n_rows <= 0:
        return ()
    step = max(one_in(passes), -(-n_rows // MAX_OF_FILING))
    starts = range(0, n_rows, step)
    drawn = [start + _number(seed, at) % step for at, start in enumerate(starts)]
    chosen = tuple(row for row in drawn if row < n_rows)
    if not chosen and passes < NEWCOMER_PASSES:
        return (_number(seed, len(starts)) % n_rows,)
    return chosen


def places_of(chosen: Sequence[int], rows: Sequence[int]) -> tuple[int, ...]:
    """Return which leaves computed the chosen rows, each once, in order.

    Args:
        chosen: rows by their number, see `choose_rows`.
        rows: rows of each leaf of the filing, in the order they were filed.
    """
    ends = list(accumulate(rows))
    return tuple(sorted({bisect_right(ends, row) for row in chosen}))


def _number(seed: bytes, at: int) -> int:
    return int.from_bytes(sha256(seed + at.to_bytes(4, "big")).digest()[:8], "big")
