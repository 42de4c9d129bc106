"""The rules of a filed voucher: what it claims, what it moves, why it is refused.

Contract: as `ledger.settlement`. The signatures that a `Claim` has are verified, so no
answer, "duplicate" included, is given on unsigned bytes. A voucher moves exactly the
increase of its cumulative amount, once for each (worker, backbone, tab, price epoch,
number), from the backbone's reserve to the worker. What it claims is re-derived from
its leaves: ranges, sums, prices and root. A final one closes its key; a closed key
takes no more. A final that only the backbone signed is checked the same and held; its
worker may sign the same bytes and file them without the other signature. Refused
vouchers are kept with a reason.
"""

from dataclasses import replace

from ledger.accounts import AccountKind, Posting, TransferCode
from ledger.claims import Claim, Filed, FiledStatus, Refusal, reason_of
from ledger.closing import close
from ledger.desk import Desk, StoredVoucher, VoucherState
from ledger.errors import (
    CeilingReached,
    ChainRefused,
    ClosedRefused,
    EquivocationFound,
    FormatRefused,
    GrantRefused,
    OutOfWindow,
    RemoteError,
    SignatureRefused,
)
from ledger.grants import GrantState
from ledger.keys import short
from ledger.leaf import LEAF_BYTES, split_leaves
from ledger.one_sided import MAX_HELD_LEAVES
from ledger.penalties import note_conflict
from ledger.ranges import contains, count, subtract
from ledger.tally import Tally
from ledger.voucher import SignedVoucher, Voucher, VoucherKey, check_extends

__all__ = ["HELD", "earn_key", "file_claim"]

HELD = "held"  # the reason of a final that is stored until its worker signs
_SERVING = slice(9, 13)  # where a packed leaf has its serving number
_MAX_NEW_LEAVES = 1 << 17  # in one filing: about half a second of the one writer


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
        note_conflict(desk, claim)  # two bodies of one number convict who signed both
        return _answer(claim, FiledStatus.REJECTED, refusal.reason, refusal.detail)


def _file(desk: Desk, claim: Claim) -> Filed:
    claimed = claim.voucher
    if desk.has_filing(claim.content_hash):
        return _answer(claim, FiledStatus.DUPLICATE)
    claim = _with_other_half(desk, claim)
    head = desk.head(claimed.key)
    is_closed = head is not None and head.is_closed
    if head is not None and is_closed and claimed.number > head.voucher.number:
        raise ClosedRefused(
            f"the tab was closed by voucher {head.voucher.number}",
            peer=claimed.worker,
        )
    state = _covering_grant(desk, claimed, is_closed=is_closed)
    if head is not None and _is_superseded(desk, head, claimed):
        return _answer(
            claim,
            FiledStatus.DUPLICATE,
            detail=f"voucher {head.voucher.number} covers it",
        )
    return _take(desk, claim, state, head)


def _take(
    desk: Desk, claim: Claim, state: GrantState, head: StoredVoucher | None
) -> Filed:
    """Check a voucher that is new against its grant and its leaves, then take it."""
    claimed = claim.voucher
    current = desk.with_tally(head) if head else None
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
    if not claim.signed.worker_signature:
        return _hold(desk, claim, leaves)
    if added_uc:
        # A key's numbers only go up, so this number never earned before.
        earning = _earning(claimed, claim.content_hash, added_uc)
        desk.book.post(earning, desk.now_us, is_new=True)
        desk.grants.change(state, used_uc, is_open=True)
    stored = desk.store(claim, current, tally, leaves)
    if claimed.final:
        close(desk, stored)
    return _answer(claim, FiledStatus.STORED)


def _with_other_half(desk: Desk, claim: Claim) -> Claim:
    """Join a worker's half with the held one of its backbone; refuse what cannot be."""
    claimed, signed = claim.voucher, claim.signed
    if signed.backbone_signature and signed.worker_signature:
        return claim
    held = desk.halves.find(claimed.key)
    if signed.worker_signature:
        if held is None or held.content_hash != claim.content_hash:
            raise SignatureRefused(
                "the backbone did not sign this", peer=claimed.worker
            )
        signed = SignedVoucher(
            raw=signed.raw,
            worker_signature=signed.worker_signature,
            backbone_signature=held.backbone_signature,
        )
        return replace(claim, signed=signed, leaves=claim.leaves or held.leaves)
    if held is not None and held.content_hash != claim.content_hash:
        raise ChainRefused("another final of this tab is held", peer=claimed.backbone)
    return claim


def _hold(desk: Desk, claim: Claim, leaves: bytes) -> Filed:
    """Keep a final without its worker's signature; nothing moves."""
    claimed = claim.voucher
    n_leaves = len(leaves) // LEAF_BYTES
    if n_leaves > MAX_HELD_LEAVES:
        raise FormatRefused(
            f"{n_leaves} leaves without the worker, at most {MAX_HELD_LEAVES}",
            peer=claimed.backbone,
        )
    held = desk.halves.find(claimed.key)
    if held is not None and held.state != "held":
        raise ClosedRefused("this final was given up", peer=claimed.backbone)
    if held is None:
        if not desk.halves.has_room(claimed.backbone):
            return _answer(claim, FiledStatus.RETRY, "busy", "too many finals are held")
        desk.halves.hold(claim, leaves, desk.now_us)
    return _answer(claim, FiledStatus.STORED, HELD, "until the worker signs it")


def _earning(claimed: Voucher, content_hash: bytes, added_uc: int) -> Posting:
    return Posting(
        code=TransferCode.EARN,
        key=earn_key(claimed.key, claimed.number),
        debit=(claimed.backbone, AccountKind.CLIENT_RESERVED),
        credit=(claimed.worker, AccountKind.WORKER_PENDING),
        amount_uc=added_uc,
        reference=content_hash,
    )


def _covering_grant(desk: Desk, claimed: Voucher, *, is_closed: bool) -> GrantState:
    state = desk.grants.find(claimed.grant_hash)
    if state is None:
        raise GrantRefused(
            f"grant {short(claimed.grant_hash)} is unknown", peer=claimed.worker
        )
    granted = state.grant
    for name in ("network", "manifest_hash", "worker", "backbone", "price_table_hash"):
        if getattr(granted, name) != getattr(claimed, name):
            raise GrantRefused(f"grant is for another {name}", peer=claimed.worker)
    if not state.is_open and not is_closed:
        raise GrantRefused(
            f"grant {short(state.hash)} was released", peer=claimed.worker
        )
    return state


def _is_superseded(desk: Desk, current: StoredVoucher, claimed: Voucher) -> bool:
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


def _answer(
    claim: Claim, status: FiledStatus, reason: str = "", detail: str = ""
) -> Filed:
    return Filed(
        voucher_hash=claim.content_hash, status=status, reason=reason, detail=detail
    )
