"""The rules of value: credit, grants, and what a filed voucher moves.

Contract: everything here runs on the writer's desk, decides first and acts after; a
`LedgerError` means that nothing was changed. A `Claim` has both signatures verified, so
no answer, "duplicate" included, is given on unsigned bytes. A voucher moves exactly the
increase of its cumulative amount, once for each (worker, backbone, tab, price epoch,
number), from the backbone's reserve to the worker. What it claims is re-derived from
its leaves: ranges, sums, prices and root. Refused vouchers are kept with a reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256

from ledger.accounts import EXTERNAL_OWNER, AccountKind, Posting, TransferCode
from ledger.claims import (
    Claim,
    Filed,
    FiledStatus,
    GrantOrder,
    IssuedGrant,
    Refusal,
    reason_of,
)
from ledger.desk import Desk, GrantState, VoucherState
from ledger.errors import (
    CeilingReached,
    ChainRefused,
    EquivocationFound,
    FormatRefused,
    GrantRefused,
    OutOfWindow,
    RemoteError,
)
from ledger.grant import Grant, sign_grant
from ledger.keys import parse_key, short
from ledger.leaf import LEAF_BYTES, split_leaves
from ledger.prices import PriceTable, verify_price_table
from ledger.ranges import contains, count, subtract
from ledger.tally import Tally
from ledger.voucher import Voucher, VoucherKey, check_extends

__all__ = [
    "GrantPolicy",
    "earn_key",
    "file_claim",
    "float_leaves",
    "fund",
    "fund_key",
    "issue_grant",
    "release_expired",
]

_HOUR_US = 3_600_000_000
_SERVING = slice(9, 13)  # where a packed leaf has its serving number
_MAX_NEW_LEAVES = 1 << 17  # in one filing: about half a second of the one writer


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantPolicy:
    """The operator's choices about grants."""

    opening_credit_uc: int = 0  # given once to a backbone that has no account
    term_us: int = 24 * _HOUR_US  # how long a grant may be served against
    release_after_us: int = 48 * _HOUR_US  # after expiry, for late vouchers
    first_float: int = 64  # servings without a voucher, for a new pair
    max_float: int = 4096


def float_leaves(policy: GrantPolicy, countersigned: int) -> int:
    """Return how many unsigned servings a pair may have, given its history."""
    return max(policy.first_float, min(policy.max_float, countersigned // 4))


def earn_key(key: VoucherKey, number: int) -> bytes:
    """Return the business key of what voucher `number` of a key adds."""
    return b"".join(
        (
            key.worker,
            key.backbone,
            key.tab,
            key.price_epoch.to_bytes(4, "big"),
            number.to_bytes(4, "big"),
        )
    )


def fund_key(owner: bytes, note: str) -> bytes:
    """Return the business key of credit given to `owner` under a note."""
    return owner + note.encode()


def fund(desk: Desk, owner: bytes, amount_uc: int, note: str) -> bool:
    """Give credit to a backbone, once for each note; False for a repeat.

    Raises:
        KeyRefused, InsufficientFunds: nothing was changed.
        TransferConflict: the note was used for another amount.
    """
    posting = Posting(
        code=TransferCode.FUND,
        key=fund_key(owner, note),
        debit=(EXTERNAL_OWNER, AccountKind.EXTERNAL),
        credit=(parse_key(owner), AccountKind.CLIENT_DEPOSIT),
        amount_uc=amount_uc,
        reference=note.encode(),
    )
    return desk.book.post(posting, desk.now_us)


def issue_grant(
    desk: Desk, order: GrantOrder, policy: GrantPolicy, sign: Callable[[bytes], bytes]
) -> IssuedGrant:
    """Reserve a backbone's money and sign the grant.

    The same order (request number included) gets the same grant again while nothing
    is used of it: a lost answer may be asked for again.

    Raises:
        KeyRefused, SignatureRefused, FormatRefused, GrantRefused: the order is wrong.
        InsufficientFunds: the backbone has less free credit than the ceiling.
    """
    prices = _checked_prices(desk, order)
    serial = _serial(order)
    earlier = desk.grant_by_serial(order.backbone, serial)
    if earlier is not None:
        if earlier.is_open and not earlier.used_uc and _is_young(desk, earlier, policy):
            return earlier.issued
        serial = _serial(order, desk.now_us.to_bytes(8, "big"))
    release_expired(desk, policy)
    _open_client(desk, order.backbone, policy)
    countersigned = desk.pair_leaves(order.worker, order.backbone)
    issued_grant = Grant(
        network=desk.owner.network,
        manifest_hash=prices.manifest_hash,
        worker=order.worker,
        backbone=order.backbone,
        price_table_hash=prices.content_hash,
        ceiling_uc=order.ceiling_uc,
        expiry_us=desk.now_us + policy.term_us,
        float_leaves=float_leaves(policy, countersigned),
        serial=serial,
    )
    reserve = Posting(
        code=TransferCode.RESERVE,
        key=issued_grant.content_hash,
        debit=(order.backbone, AccountKind.CLIENT_DEPOSIT),
        credit=(order.backbone, AccountKind.CLIENT_RESERVED),
        amount_uc=order.ceiling_uc,
        reference=issued_grant.content_hash,
    )
    desk.book.post(reserve, desk.now_us)
    raw = issued_grant.pack()
    issued = IssuedGrant(raw=raw, signature=sign_grant(raw, sign))
    desk.add_prices(prices, order.price_table, order.price_signature)
    desk.add_grant(issued, issued_grant)
    return issued


def release_expired(desk: Desk, policy: GrantPolicy) -> int:
    """Give back what is left of grants past expiry and grace; return how many."""
    expired = desk.expired_grants(desk.now_us - policy.release_after_us)
    for state in expired:
        rest = state.grant.ceiling_uc - state.used_uc
        if rest:
            backbone = state.grant.backbone
            posting = Posting(
                code=TransferCode.RELEASE,
                key=state.hash,
                debit=(backbone, AccountKind.CLIENT_RESERVED),
                credit=(backbone, AccountKind.CLIENT_DEPOSIT),
                amount_uc=rest,
                reference=state.hash,
            )
            desk.book.post(posting, desk.now_us)
        desk.change_grant(state, state.used_uc, is_open=False)
    return len(expired)


def file_claim(desk: Desk, claim: Claim) -> Filed:
    """Store a voucher and move what it adds, or say why not; never raises for bytes."""
    try:
        return _file(desk, claim)
    except RemoteError as exc:
        refusal = Refusal(
            reason=reason_of(exc),
            detail=str(exc),
            signed=claim.signed,
            voucher=claim.voucher,
            filed_by=claim.filed_by,
        )
        desk.reject(refusal)
        return _answer(claim, FiledStatus.REJECTED, refusal.reason, refusal.detail)


def _file(desk: Desk, claim: Claim) -> Filed:
    claimed = claim.voucher
    if desk.has_filing(claim.content_hash):
        return _answer(claim, FiledStatus.DUPLICATE)
    state = _covering_grant(desk, claimed)
    current = desk.voucher(claimed.key)
    if current is not None and _is_superseded(desk, current, claimed):
        return _answer(
            claim,
            FiledStatus.DUPLICATE,
            detail=f"voucher {current.voucher.number} covers it",
        )
    added_uc = claimed.amount_uc - (current.voucher.amount_uc if current else 0)
    used_uc = state.used_uc + added_uc
    if used_uc > state.grant.ceiling_uc:  # before any leaf is looked at
        raise CeilingReached(
            f"{used_uc} of {state.grant.ceiling_uc} micro-credits granted",
            peer=claimed.worker,
        )
    tally = current.tally.copy() if current else desk.new_tally(claimed)
    leaves = _missing_leaves(tally, claim)
    if leaves is None:
        return _answer(claim, FiledStatus.RETRY, "leaves", "leaves are missing")
    tally = _grown(desk, current, tally, leaves)
    tally.check(claimed)
    if added_uc:
        # A key's numbers only go up, so this number never earned before.
        earning = _earning(claimed, claim.content_hash, added_uc)
        desk.book.post(earning, desk.now_us, is_new=True)
        desk.change_grant(state, used_uc, is_open=True)
    desk.store(claim, current, tally, leaves)
    return _answer(claim, FiledStatus.STORED)


def _earning(claimed: Voucher, content_hash: bytes, added_uc: int) -> Posting:
    return Posting(
        code=TransferCode.EARN,
        key=earn_key(claimed.key, claimed.number),
        debit=(claimed.backbone, AccountKind.CLIENT_RESERVED),
        credit=(claimed.worker, AccountKind.WORKER_PENDING),
        amount_uc=added_uc,
        reference=content_hash,
    )


def _covering_grant(desk: Desk, claimed: Voucher) -> GrantState:
    state = desk.grant(claimed.grant_hash)
    if state is None:
        raise GrantRefused(
            f"grant {short(claimed.grant_hash)} is unknown", peer=claimed.worker
        )
    granted = state.grant
    for name in ("network", "manifest_hash", "worker", "backbone", "price_table_hash"):
        if getattr(granted, name) != getattr(claimed, name):
            raise GrantRefused(f"grant is for another {name}", peer=claimed.worker)
    if not state.is_open:
        raise GrantRefused(
            f"grant {short(state.hash)} was released", peer=claimed.worker
        )
    return state


def _is_superseded(desk: Desk, current: VoucherState, claimed: Voucher) -> bool:
    """Say whether a later voucher covers this one; refuse what does not fit."""
    newest = current.voucher
    if claimed.number > newest.number:
        check_extends(newest, claimed)
        return False
    if claimed.number == newest.number or desk.has_number(current.id, claimed.number):
        raise EquivocationFound(
            f"another voucher {claimed.number} was filed", peer=claimed.worker
        )
    if (
        subtract(claimed.ranges, newest.ranges)
        or claimed.amount_uc > newest.amount_uc
        or claimed.price_table_hash != newest.price_table_hash
    ):
        raise ChainRefused(
            f"voucher {claimed.number} is not part of {newest.number}",
            peer=claimed.worker,
        )
    return True


def _missing_leaves(tally: Tally, claim: Claim) -> bytes | None:
    """Return the claim's leaves that are new, or None if some are not there."""
    missing = subtract(claim.voucher.ranges, tally.ranges)
    n_missing = count(missing)
    n_leaves = max(n_missing, len(claim.leaves) // LEAF_BYTES)
    if n_leaves > _MAX_NEW_LEAVES:
        raise FormatRefused(
            f"{n_leaves} leaves in one filing, at most {_MAX_NEW_LEAVES}",
            peer=claim.voucher.worker,
        )
    if len(claim.leaves) == n_missing * LEAF_BYTES:
        return claim.leaves
    wanted: dict[int, bytes] = {}
    for leaf in split_leaves(claim.leaves):
        serving = int.from_bytes(leaf[_SERVING], "big")
        if contains(missing, serving):
            wanted[serving] = leaf
    if len(wanted) < n_missing:
        return None
    return b"".join(wanted[serving] for serving in sorted(wanted))


def _grown(
    desk: Desk, current: VoucherState | None, tally: Tally, leaves: bytes
) -> Tally:
    try:
        tally.add(leaves)
    except OutOfWindow:
        if current is None:
            raise
        tally = desk.new_tally(current.voucher)
        tally.add(desk.all_leaves(current.id) + leaves)
    return tally


def _checked_prices(desk: Desk, order: GrantOrder) -> PriceTable:
    parse_key(order.worker)
    parse_key(order.backbone)
    if order.worker == order.backbone:
        raise GrantRefused("a backbone cannot owe itself", peer=order.backbone)
    if order.ceiling_uc <= 0:
        raise GrantRefused(f"ceiling of {order.ceiling_uc}", peer=order.backbone)
    prices = verify_price_table(
        order.price_table, order.price_signature, desk.owner.market
    )
    if prices.network != desk.owner.network:
        raise GrantRefused("prices of another network", peer=order.backbone)
    return prices


def _is_young(desk: Desk, state: GrantState, policy: GrantPolicy) -> bool:
    return state.grant.expiry_us - desk.now_us > policy.term_us // 2


def _serial(order: GrantOrder, extra: bytes = b"") -> bytes:
    """Return the serial that an order gets: the same for the same order."""
    parts = (
        order.backbone,
        order.worker,
        order.request.to_bytes(8, "big"),
        order.ceiling_uc.to_bytes(8, "big"),
        sha256(order.price_table).digest(),
        extra,
    )
    return sha256(b"p2pmoe/grant-serial/v1\0" + b"".join(parts)).digest()[:8]


def _open_client(desk: Desk, backbone: bytes, policy: GrantPolicy) -> None:
    if policy.opening_credit_uc <= 0:
        return
    account = desk.book.find(backbone, AccountKind.CLIENT_DEPOSIT)
    if account is None or account.credits_uc == 0:  # it may have come before in vain
        fund(desk, backbone, policy.opening_credit_uc, "opening credit")


def _answer(
    claim: Claim, status: FiledStatus, reason: str = "", detail: str = ""
) -> Filed:
    return Filed(
        voucher_hash=claim.content_hash, status=status, reason=reason, detail=detail
    )
