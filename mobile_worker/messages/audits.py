"""Messages by which work is audited, standing is told, and replicas are paid.

    beacon audit   ledger -> OPEN -> backbone -> OPENED -> ledger
                   ledger -> RECOMPUTE -> market -> CANARY -> holder -> CANARY_ANSWER
                   -> market -> RECOMPUTED -> ledger -> VERDICT -> market
    canary         market -> CANARY -> every holder, at the same moment
    own checks     backbone -> AUDIT -> market
    standing       market -> STANDING -> worker
    money          ledger -> PAID -> market;  market -> STANDBY -> ledger -> BOOKED

Source: design/06, "Verification" and "Price".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.envelope import MessageType
from mobile_worker.messages.fields import (
    DIGEST,
    I63,
    PEER,
    SIGNATURE,
    U8,
    U16,
    U32,
    U64,
    Bytes,
    Counts,
    Experts,
    Kind,
    Rows,
    Text,
)
from relay.keys import PeerId

__all__ = [
    "MAX_CANARY_EXPERTS",
    "Audit",
    "Booked",
    "Canary",
    "CanaryAnswer",
    "CheckOutcome",
    "Open",
    "Opened",
    "Paid",
    "Recompute",
    "Recomputed",
    "Standby",
    "Standing",
    "Verdict",
]

MAX_CANARY_EXPERTS = 256
_HASH_BYTES = 16
_OPENED = Rows(8 << 20)  # the rows of one call, as its leaf's `x_hash` takes them
_PAPER = Rows(16 << 20)
_ONE = Experts(1)
_SOME = Experts(MAX_CANARY_EXPERTS)
_REASON = Text(200)


class CheckOutcome(IntEnum):
    """What one check of a worker's results came to."""

    PASSED = 0
    FAILED = 1  # other bits than the right ones
    SILENT = 2  # no answer in time: counted apart, never a mismatch


@dataclass(frozen=True, slots=True, kw_only=True)
class Canary:
    """CANARY, market -> holder: compute these experts, and say the results' hashes.

    seed: 32 bytes from which the rows of each expert follow, or empty with `rows`:
    the bytes that open one leaf. profile: how results are coded before hashing.
    within_ms: later answers do not count.
    """

    TYPE: ClassVar[MessageType] = MessageType.CANARY
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "number": U64,
        "manifest_hash": DIGEST,
        "experts": _SOME,
        "profile": U8,
        "n_rows": U16,
        "within_ms": U32,
        "seed": Bytes((0, 32)),
        "rows": _OPENED,
    }

    number: int
    manifest_hash: bytes
    experts: tuple[ExpertId, ...]
    profile: int
    n_rows: int
    within_ms: int
    seed: bytes
    rows: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryAnswer:
    """CANARY_ANSWER, holder -> market: `out_hash` of each expert named, in order.

    reason: why others of the canary are not named, such as `paused`; empty if all are.
    """

    TYPE: ClassVar[MessageType] = MessageType.CANARY_ANSWER
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "number": U64,
        "experts": _SOME,
        "hashes": Rows(_HASH_BYTES * MAX_CANARY_EXPERTS, _HASH_BYTES),
        "reason": _REASON,
    }

    number: int
    experts: tuple[ExpertId, ...]
    hashes: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """OPEN, ledger -> backbone: the beacon chose this serving of a filed voucher."""

    TYPE: ClassVar[MessageType] = MessageType.OPEN
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "voucher_hash": DIGEST,
        "tab": Bytes((8,)),
        "serving": U32,
    }

    voucher_hash: bytes
    tab: bytes
    serving: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """OPENED, backbone -> ledger: the serving's rows, or why it has them no more."""

    TYPE: ClassVar[MessageType] = MessageType.OPENED
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "voucher_hash": DIGEST,
        "serving": U32,
        "rows": _OPENED,
        "reason": _REASON,
    }

    voucher_hash: bytes
    serving: int
    rows: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recompute:
    """RECOMPUTE, ledger -> market: have someone else than `worker` compute these rows.

    avoid: further holders whose word is not wanted, such as an earlier referee.
    """

    TYPE: ClassVar[MessageType] = MessageType.RECOMPUTE
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "number": U64,
        "manifest_hash": DIGEST,
        "expert": _ONE,
        "profile": U8,
        "n_rows": U16,
        "worker": PEER,
        "avoid": Rows(32 * 64, 32),
        "rows": _OPENED,
    }

    number: int
    manifest_hash: bytes
    expert: tuple[ExpertId, ...]
    profile: int
    n_rows: int
    worker: PeerId
    avoid: bytes
    rows: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Recomputed:
    """RECOMPUTED, market -> ledger: what `referee` computed, or why nobody did."""

    TYPE: ClassVar[MessageType] = MessageType.RECOMPUTED
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "number": U64,
        "out_hash": Bytes((0, _HASH_BYTES)),
        "referee": Bytes((0, 32)),
        "reason": _REASON,
    }

    number: int
    out_hash: bytes
    referee: bytes
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """AUDIT, backbone -> market: what its own checks of one worker came to.

    counts: pairs (expert, checks with this outcome) since the last such message.
    """

    TYPE: ClassVar[MessageType] = MessageType.AUDIT
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "worker": PEER,
        "manifest_hash": DIGEST,
        "outcome": U8,
        "counts": Counts(),
    }

    worker: PeerId
    manifest_hash: bytes
    outcome: int
    counts: tuple[tuple[ExpertId, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """VERDICT, ledger -> market: what an audited serving of a worker came to.

    referees: 32 bytes each of those who computed it again.
    """

    TYPE: ClassVar[MessageType] = MessageType.VERDICT
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "worker": PEER,
        "backbone": PEER,
        "voucher_hash": DIGEST,
        "serving": U32,
        "outcome": U8,
        "referees": Rows(32 * 64, 32),
    }

    worker: PeerId
    backbone: PeerId
    voucher_hash: bytes
    serving: int
    outcome: int
    referees: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """STANDING, market -> worker: how it stands, and why.

    state, reason: numbers of `mobile_worker.standing`; detail: the reason in words with
    its figures. until_s: seconds until it may change by itself; 0 if it does not.
    """

    TYPE: ClassVar[MessageType] = MessageType.STANDING
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "state": U8,
        "reason": U8,
        "detail": _REASON,
        "passes": U32,
        "mismatches": U32,
        "timeouts": U32,
        "until_s": U32,
    }

    state: int
    reason: int
    detail: str
    passes: int
    mismatches: int
    timeouts: int
    until_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """PAID, ledger -> market: rows that were paid for, by expert, in a span of time."""

    TYPE: ClassVar[MessageType] = MessageType.PAID
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "manifest_hash": DIGEST,
        "from_us": I63,
        "to_us": I63,
        "counts": Counts(),
    }

    manifest_hash: bytes
    from_us: int
    to_us: int
    counts: tuple[tuple[ExpertId, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Standby:
    """STANDBY, market -> ledger: the signed paper of what each replica is paid."""

    TYPE: ClassVar[MessageType] = MessageType.STANDBY
    FIELDS: ClassVar[Mapping[str, Kind]] = {"paper": _PAPER, "signature": SIGNATURE}

    paper: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Booked:
    """BOOKED, ledger -> market: the paper of this hash is booked, or why it is not.

    error: empty, or why; one that begins with "later:" may go away.
    """

    TYPE: ClassVar[MessageType] = MessageType.BOOKED
    FIELDS: ClassVar[Mapping[str, Kind]] = {"name": DIGEST, "error": _REASON}

    name: bytes
    error: str
