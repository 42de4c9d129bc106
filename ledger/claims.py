"""What is handed to the ledger and what it answers.

Contract: a `Claim` exists only with its signatures verified over the received bytes;
`verify_claim` is its one maker. It has both, but for a final voucher, of which either
may be missing: `ledger.filings` joins the halves. Bytes that fail there become a
`Refusal`, which the store keeps with its reason. `Filed` is the answer; its status
numbers are those of the FILED message. Pure.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from ledger.errors import (
    AmountRefused,
    CeilingReached,
    ChainRefused,
    ClosedRefused,
    EquivocationFound,
    FormatRefused,
    GrantRefused,
    KeyRefused,
    RemoteError,
    SignatureRefused,
)
from ledger.voucher import SignedVoucher, Voucher, verify_voucher, voucher_hash

__all__ = [
    "Claim",
    "Filed",
    "FiledStatus",
    "GrantOrder",
    "IssuedGrant",
    "Refusal",
    "RejectReason",
    "reason_of",
    "verify_claim",
]


class FiledStatus(IntEnum):
    """What became of a filed voucher."""

    STORED = 0
    DUPLICATE = 1  # this one, or a later one that covers it, is stored
    REJECTED = 2
    RETRY = 3  # nothing is wrong with it, but leaves are missing or the store is busy


class RejectReason(StrEnum):
    """Why a voucher was refused."""

    FORMAT = "format"
    KEY = "key"
    SIGNATURE = "signature"
    AMOUNT = "amount"
    GRANT = "grant"
    CEILING = "ceiling"
    CHAIN = "chain"
    EQUIVOCATION = "equivocation"
    CLOSED = "closed"


_REASONS: dict[type[RemoteError], RejectReason] = {
    FormatRefused: RejectReason.FORMAT,
    KeyRefused: RejectReason.KEY,
    SignatureRefused: RejectReason.SIGNATURE,
    AmountRefused: RejectReason.AMOUNT,
    GrantRefused: RejectReason.GRANT,
    CeilingReached: RejectReason.CEILING,
    ChainRefused: RejectReason.CHAIN,
    EquivocationFound: RejectReason.EQUIVOCATION,
    ClosedRefused: RejectReason.CLOSED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A signed voucher with the leaves that were not filed before."""

    signed: SignedVoucher
    voucher: Voucher
    content_hash: bytes  # [32]
    leaves: bytes  # packed, any order
    filed_by: bytes  # [32] the peer that sent it


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A voucher that failed before its content was looked at, or after."""

    reason: RejectReason
    detail: str
    signed: SignedVoucher
    voucher: Voucher | None  # None where its worker has no part in it
    filed_by: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """The ledger's answer to a filed voucher."""

    voucher_hash: bytes  # [32]
    status: FiledStatus
    reason: str = ""  # a RejectReason; "leaves" or "busy" to try again; "held"
    detail: str = ""  # one sentence for people


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantOrder:
    """A backbone's request for permission to owe a worker."""

    request: int  # u64, chosen by the backbone; the same one is the same grant
    backbone: bytes  # [32]
    worker: bytes  # [32]
    ceiling_uc: int
    price_table: bytes
    price_signature: bytes  # [64] by the market

    def __post_init__(self) -> None:
        """Check the request's bounds; everything else is checked with the order."""
        if not 0 <= self.request < 1 << 64:
            raise FormatRefused(f"grant request {self.request}", peer=self.backbone)


@dataclass(frozen=True, slots=True, kw_only=True)
class IssuedGrant:
    """A grant's bytes and the ledger's signature."""

    raw: bytes
    signature: bytes  # [64]


def reason_of(error: RemoteError) -> RejectReason:
    """Return the reason code for an error about received bytes."""
    return _REASONS.get(type(error), RejectReason.FORMAT)


def verify_claim(
    signed: SignedVoucher, leaves: bytes, filed_by: bytes
) -> Claim | Refusal:
    """Check the signatures over the received bytes, before anything else.

    Both must be there, but for a final voucher, of which one may be empty. Anyone can
    write a worker's key into bytes: what is refused is put down to a worker only if it
    signed them or sent them.
    """
    voucher: Voucher | None = None
    try:
        voucher = Voucher.parse(signed.raw)
        _verify(signed, voucher)
    except RemoteError as exc:
        return Refusal(
            reason=reason_of(exc),
            detail=str(exc),
            signed=signed,
            voucher=voucher if _is_of_worker(voucher, signed, filed_by) else None,
            filed_by=filed_by,
        )
    return Claim(
        signed=signed,
        voucher=voucher,
        content_hash=voucher_hash(signed.raw),
        leaves=leaves,
        filed_by=filed_by,
    )


def _verify(signed: SignedVoucher, voucher: Voucher) -> None:
    """Check what signatures there are; a final needs one of them, others both."""
    if (signed.worker_signature and signed.backbone_signature) or not voucher.final:
        signed.verified()
    elif signed.backbone_signature:
        verify_voucher(signed.raw, signed.backbone_signature, voucher.backbone)
    else:
        verify_voucher(signed.raw, signed.worker_signature, voucher.worker)


def _is_of_worker(
    voucher: Voucher | None, signed: SignedVoucher, filed_by: bytes
) -> bool:
    if voucher is None or filed_by == voucher.worker:
        return voucher is not None
    try:
        verify_voucher(signed.raw, signed.worker_signature, voucher.worker)
    except RemoteError:
        return False
    return True
