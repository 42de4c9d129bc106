r"""The policy: the operator's terms for closed vouchers, signed by the ledger.

Contract: one canonical binary encoding, named by its SHA-256:

    magic "PMPO" | version u8 | fee_ppm u32 | holdback_ppm u32 | holdback_us u64
    | dispute_us u64 | answer_us u64 | retention_us u64 | since_us u64
    | standby_uc u64 (in version 2 alone)

Version 2 is for terms with standby pay: `standby_uc`, the most that one paper
(`ledger.standby`) may give, is not zero there; without it the bytes are version 1.

What a closed voucher earned is split in whole micro-credits, rounded down in favour of
the worker: `fee = amount * fee_ppm // 10^6`, `held = (amount - fee) * holdback_ppm //
10^6`, the rest is net. The policy that holds is the newest when a voucher closes; no
later one touches what is closed. `since_us` is when it was set, so that the same terms
set again have a name of their own. Signed: `"p2pmoe/policy/v1\0" || policy`. Pure.
"""

import struct
from collections.abc import Callable
from dataclasses import astuple, dataclass
from hashlib import sha256

from ledger.amounts import MAX_AMOUNT_UC
from ledger.errors import FormatRefused
from ledger.keys import verify

__all__ = [
    "PARTS_PER_MILLION",
    "POLICY_BYTES",
    "POLICY_DOMAIN",
    "Policy",
    "Split",
    "sign_policy",
    "verify_policy",
]

POLICY_DOMAIN = b"p2pmoe/policy/v1\0"
PARTS_PER_MILLION = 1_000_000
_MAGIC, _VERSION, _WITH_STANDBY = b"PMPO", 1, 2
_LAYOUT = struct.Struct(">4sBIIQQQQQ")
_LAYOUT_2 = struct.Struct(">4sBIIQQQQQQ")
POLICY_BYTES = _LAYOUT.size
_HOUR_US = 3_600_000_000
_DAY_US = 24 * _HOUR_US
_MAX_SPAN_US = 3660 * _DAY_US  # ten years: more is a slip of the pen


@dataclass(frozen=True, slots=True)
class Split:
    """What becomes of a closed voucher's amount; the parts add up to it."""

    fee_uc: int
    held_uc: int
    net_uc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Fee, holdback and the spans of time that follow a voucher's close."""

    fee_ppm: int = 0  # the operator's part of what is earned
    holdback_ppm: int = 0  # kept back of the rest, against cheating
    holdback_us: int = 30 * _DAY_US  # from the close until it is given back
    dispute_us: int = 48 * _HOUR_US  # from the close, in which it may be disputed
    answer_us: int = 24 * _HOUR_US  # from a dispute, in which it must be answered
    retention_us: int = 32 * _DAY_US  # from the close, in which the leaves are kept
    since_us: int = 0  # when it was set
    standby_uc: int = 0  # the most that held replicas of a model get for an epoch

    def __post_init__(self) -> None:
        """Check the bound of every field.

        Raises:
            FormatRefused: a part above one, a span below zero or above ten years,
                disputes that nobody could answer, or leaves or a holdback that end
                before the dispute window does.
        """
        for name in ("fee_ppm", "holdback_ppm"):
            if not 0 <= getattr(self, name) <= PARTS_PER_MILLION:
                raise FormatRefused(f"policy: {name} of {getattr(self, name)}")
        for name in ("holdback_us", "dispute_us", "answer_us", "retention_us"):
            if not 0 <= getattr(self, name) <= _MAX_SPAN_US:
                raise FormatRefused(f"policy: {name} of {getattr(self, name)}")
        if not 0 <= self.since_us < 1 << 62:
            raise FormatRefused(f"policy: since_us of {self.since_us}")
        if self.dispute_us and not self.answer_us:  # silence loses: it would at once
            raise FormatRefused("policy: no time to answer a dispute")
        if not 0 <= self.standby_uc <= MAX_AMOUNT_UC:
            raise FormatRefused(f"policy: standby_uc of {self.standby_uc}")
        if self.retention_us < self.dispute_us + self.answer_us:
            raise FormatRefused(
                f"policy: leaves kept {self.retention_us} us, but disputes take "
                f"{self.dispute_us} + {self.answer_us} us"
            )
        if self.holdback_ppm and self.holdback_us < self.dispute_us:
            raise FormatRefused(
                f"policy: holdback of {self.holdback_us} us ends before the dispute "
                f"window of {self.dispute_us} us"
            )

    def split(self, amount_uc: int) -> Split:
        """Divide what a closed voucher earned; nothing is lost or made."""
        fee_uc = amount_uc * self.fee_ppm // PARTS_PER_MILLION
        held_uc = (amount_uc - fee_uc) * self.holdback_ppm // PARTS_PER_MILLION
        return Split(fee_uc, held_uc, amount_uc - fee_uc - held_uc)

    def pack(self) -> bytes:
        """Return the canonical bytes."""
        fields = astuple(self)
        if self.standby_uc:
            return _LAYOUT_2.pack(_MAGIC, _WITH_STANDBY, *fields)
        return _LAYOUT.pack(_MAGIC, _VERSION, *fields[:-1])

    @property
    def content_hash(self) -> bytes:
        """SHA-256 of the canonical bytes: the policy's name."""
        return sha256(self.pack()).digest()

    @staticmethod
    def parse(raw: bytes) -> "Policy":
        """Read canonical bytes back.

        Raises:
            FormatRefused: wrong magic, version, length or a field out of bounds.
        """
        layout = _LAYOUT_2 if len(raw) == _LAYOUT_2.size else _LAYOUT
        if len(raw) != layout.size:
            raise FormatRefused(f"policy of {len(raw)} bytes, expected {POLICY_BYTES}")
        magic, version, *fields = layout.unpack(raw)
        of_layout = _VERSION if layout is _LAYOUT else _WITH_STANDBY
        if magic != _MAGIC or version != of_layout:
            raise FormatRefused(f"policy: magic {magic!r} version {version}")
        standby_uc = fields[7] if layout is _LAYOUT_2 else 0
        if layout is _LAYOUT_2 and not standby_uc:
            raise FormatRefused("policy: version 2 without standby pay")
        return Policy(
            fee_ppm=fields[0],
            holdback_ppm=fields[1],
            holdback_us=fields[2],
            dispute_us=fields[3],
            answer_us=fields[4],
            retention_us=fields[5],
            since_us=fields[6],
            standby_uc=standby_uc,
        )


def sign_policy(raw: bytes, sign: Callable[[bytes], bytes]) -> bytes:
    """Return the ledger's 64-byte signature over the packed policy."""
    return sign(POLICY_DOMAIN + raw)


def verify_policy(raw: bytes, signature: bytes, ledger: bytes) -> Policy:
    """Check the ledger's signature over the bytes as received, then read them.

    Raises:
        KeyRefused, SignatureRefused, FormatRefused: see there.
    """
    verify(ledger, POLICY_DOMAIN, raw, signature)
    return Policy.parse(raw)
