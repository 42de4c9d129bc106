"""What an audit has derived so far: signed evidence, and the transfers it demands.

Contract: the parts of the audit (`ledger.audit_*`) fill one `Books` in a fixed order;
each notes the transfers that its evidence demands (`expect`), and what is left of them
at the end is missing. `same` is how every part compares; `naming` turns what is wrong
with bytes into a difference of the thing they belong to. Reads only.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256

from ledger.accounts import AccountKind, TransferCode, transfer_id
from ledger.database import LedgerIdentity
from ledger.errors import DifferenceFound, RemoteError
from ledger.grant import Grant
from ledger.policy import Policy
from ledger.prices import PriceTable

__all__ = [
    "AuditReport",
    "Books",
    "Closed",
    "Conviction",
    "DisputeFound",
    "Due",
    "Filed",
    "Side",
    "holds",
    "naming",
    "same",
]

_MAX_ID_BYTES = 64
Side = tuple[bytes, AccountKind]  # an account: its owner and kind


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """What was re-derived; all counts are of things that were found right."""

    price_tables: int = 0
    policies: int = 0
    grants: int = 0
    vouchers: int = 0
    receipts: int = 0  # leaves: servings with a receipt
    pruned_receipts: int = 0  # whose leaves are gone by the policy: sums alone
    unread_receipts: int = 0  # whose leaves were left out, as was asked for
    pruned_files: list[int] = field(default_factory=list)  # of leaves
    closings: int = 0
    disputes: int = 0
    equivocations: int = 0
    beacons: int = 0
    audits: int = 0  # of servings that beacons chose
    one_sided: int = 0
    standby_papers: int = 0
    rejected: int = 0
    log_entries: int = 0
    checkpoints: int = 0
    cosignatures: int = 0
    periods: int = 0
    payouts: int = 0
    transfers: int = 0
    accounts: int = 0
    earned_uc: int = 0
    standby_uc: int = 0
    paid_uc: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """A transfer that must be there."""

    code: str
    debit: Side
    credit: Side
    amount_uc: int
    reference: bytes
    posted_us: int | None  # None: not known from elsewhere


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """A voucher that was found right: what later parts need of it, and no more."""

    id: int
    content_hash: bytes  # [32]
    worker: bytes  # [32]
    backbone: bytes  # [32]
    tab: bytes  # [8]
    amount_uc: int
    is_final: bool
    posted_us: int

    @property
    def name(self) -> str:
        """As it is called in messages."""
        return f"voucher {self.content_hash[:4].hex()} of tab {self.tab.hex()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """A closing that was found right: what later parts need of it."""

    content_hash: bytes  # [32]
    policy_hash: bytes  # [32]
    closed_us: int
    state: str
    released_us: int | None
    net_uc: int
    holdback: str
    holdback_us: int | None
    held_uc: int


@dataclass(frozen=True, slots=True)
class DisputeFound:
    """What a dispute, or the audit of a serving, means for its voucher."""

    id: int
    is_pending: bool
    is_lost_by_worker: bool
    decided_us: int | None
    by: str = "dispute"  # or "audit"


@dataclass(frozen=True, slots=True)
class Conviction:
    """An audit that found wrong results."""

    id: int
    voucher_id: int
    decided_us: int
    is_reversed: bool  # it took the voucher's net amount back


@dataclass(slots=True)
class Books:
    """What is known so far."""

    owner: LedgerIdentity
    is_full: bool = True  # else the leaves themselves are not read
    tell: Callable[[str, float], None] = lambda _label, _share: None  # how far it is
    report: AuditReport = field(default_factory=AuditReport)
    prices: dict[bytes, PriceTable] = field(default_factory=dict)
    policies: dict[bytes, Policy] = field(default_factory=dict)
    grants: dict[bytes, Grant] = field(default_factory=dict)
    used_uc: defaultdict[bytes, int] = field(default_factory=lambda: defaultdict(int))
    vouchers: dict[int, Filed] = field(default_factory=dict)  # by row id
    pruned_us: dict[int, int] = field(default_factory=dict)  # of leaves, by voucher
    disputed: set[int] = field(default_factory=set)  # vouchers, by row id
    leaves: dict[tuple[int, int], bytes] = field(default_factory=dict)  # of those
    disputes: defaultdict[int, list[DisputeFound]] = field(
        default_factory=lambda: defaultdict(list)
    )
    equivocations: defaultdict[bytes, list[int]] = field(
        # worker -> when it lost all that was held back: proven, or convicted by audit
        default_factory=lambda: defaultdict(list)
    )
    convictions: list[Conviction] = field(default_factory=list)
    closed: dict[int, Closed] = field(default_factory=dict)  # by voucher's row id
    # By paper and worker: what it got of it, and when.
    standby: dict[tuple[int, bytes], tuple[int, int]] = field(default_factory=dict)
    entries: list[bytes] = field(default_factory=list)  # of the log, leaf hashes
    due: dict[bytes, Due] = field(default_factory=dict)  # by transfer id
    _shared: dict[bytes, bytes] = field(default_factory=dict)
    _sides: dict[Side, Side] = field(default_factory=dict)

    def shared(self, raw: bytes) -> bytes:
        """Return the one copy of bytes that come again and again."""
        return self._shared.setdefault(raw, raw)

    def side(self, owner: bytes, kind: AccountKind) -> Side:
        """Return the one copy of an account's name."""
        side = self.shared(owner), kind
        return self._sides.setdefault(side, side)

    def expect(
        self,
        code: TransferCode,
        key: bytes,
        sides: tuple[Side, Side],
        amount_uc: int,
        reference: bytes,
        *,
        posted_us: int | None = None,
    ) -> None:
        """Note a transfer that must be there; nothing moves for an amount of zero."""
        if not amount_uc:
            return
        ident = transfer_id(code, key)
        if ident in self.due:
            raise DifferenceFound(f"{code} {ident.hex()} has two reasons")
        self.due[ident] = Due(
            code=code,
            debit=self.side(*sides[0]),
            credit=self.side(*sides[1]),
            amount_uc=amount_uc,
            reference=reference,
            posted_us=posted_us,
        )


@contextmanager
def naming(name: str) -> Iterator[None]:
    """Turn what is wrong with bytes into a difference of the thing they belong to."""
    try:
        yield
    except RemoteError as exc:
        raise DifferenceFound(f"{name}: {exc}") from exc


def same(name: str, what: str, stored: object, derived: object) -> None:
    """Check that what is stored is what was derived.

    Raises:
        DifferenceFound: names the thing, what of it, and both values.
    """
    if stored != derived:
        raise DifferenceFound(
            f"{name}: {what} is {_shown(stored)}, re-derived {_shown(derived)}"
        )


def holds(name: str, claim: str, is_so: bool) -> None:
    """Check a claim about something.

    Raises:
        DifferenceFound: names the thing and the claim.
    """
    if not is_so:
        raise DifferenceFound(f"{name}: not so: {claim}")


def _shown(value: object) -> str:
    """Return a value in one short line: ids by their beginning, long bytes by hash."""
    if isinstance(value, bytes) and len(value) > _MAX_ID_BYTES:
        return f"{len(value)} bytes of hash {sha256(value).hexdigest()[:16]}"
    if isinstance(value, bytes):
        return value[:8].hex()
    if isinstance(value, tuple | list):
        return f"({', '.join(_shown(each) for each in value[:6])})"
    return str(value)[:80]
