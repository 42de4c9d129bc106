"""The rules of a closed voucher: fee and holdback at once, the rest after its window.

Contract: as `ledger.settlement`. A voucher's key closes once: by its final voucher, or
when the last grant it was filed under is released. `amount = fee + held + net` under
the policy that holds then; fee and holdback leave `worker_pending` in the same
transaction, the closing gets the next place in the log, and no later voucher of the
key is taken. Business key and reference of every transfer here are the content hash of
the voucher that closed the key; a part of zero moves nothing.

    state      closed -> released            the dispute window ended: settle
               closed -> disputed            `dispute`
               disputed -> closed            `dismiss`: released when due
               disputed -> reversed          `reverse`: back to the backbone
               closed, disputed -> reversed  `void`: the same, by an audit
    holdback   see `ledger.holdback`
"""

from ledger.accounts import EXTERNAL_OWNER, AccountKind, Posting, TransferCode
from ledger.closings import ClosedState, ClosingState, HoldbackState
from ledger.desk import Desk, StoredVoucher
from ledger.errors import DifferenceFound, NotFound, StoreUnavailable
from ledger.log.entry import entry_hash, pack_entry
from ledger.policy import Policy

__all__ = [
    "close",
    "close_due",
    "close_unfinished",
    "dismiss",
    "dispute",
    "move",
    "policy_now",
    "release_due",
    "reverse",
    "void",
]

_MAX_AT_ONCE = 512  # in one job of the one writer; the next one goes on
_SEEN_AT_ONCE = 1024


def policy_now(desk: Desk) -> Policy:
    """Return the policy for what closes now.

    Raises:
        StoreUnavailable: none was set; opening a store sets the first.
    """
    policy = desk.closings.policy
    if policy is None:
        raise StoreUnavailable("the ledger has no policy")
    return policy


def close(desk: Desk, current: StoredVoucher) -> ClosingState:
    """Close a key by its current voucher; its filings are final.

    Raises:
        StoreUnavailable: there is no policy; nothing was changed.
        DifferenceFound: its leaves cannot be read; nothing was changed.
    """
    policy = policy_now(desk)
    claimed, signed = current.voucher, current.signed
    experts = desk.expert_table(current)  # may fail: before anything is moved
    split = policy.split(claimed.amount_uc)
    state = ClosingState(
        voucher_id=current.id,
        content_hash=current.hash,
        worker=claimed.worker,
        backbone=claimed.backbone,
        policy_hash=desk.closings.policy_hash,
        amount_uc=claimed.amount_uc,
        fee_uc=split.fee_uc,
        held_uc=split.held_uc,
        net_uc=split.net_uc,
        closed_us=desk.now_us,
        release_due_us=desk.now_us + policy.dispute_us,
        holdback_due_us=desk.now_us + policy.holdback_us,
        holdback=HoldbackState.HELD if split.held_uc else HoldbackState.NONE,
    )
    pending = (claimed.worker, AccountKind.WORKER_PENDING)
    fee = (EXTERNAL_OWNER, AccountKind.FEE)
    held = (claimed.worker, AccountKind.WORKER_HELD)
    # A key closes once, so both are new; the unique index holds it, too.
    move(desk, state, TransferCode.FEE, (pending, fee), split.fee_uc, is_new=True)
    move(desk, state, TransferCode.HOLD, (pending, held), split.held_uc, is_new=True)
    desk.closings.add(
        state,
        entry_hash=entry_hash(pack_entry(signed, state.policy_hash)),
        account_id=desk.book.account(*pending, desk.now_us).id,
        experts=experts,
    )
    desk.halves.closed(claimed.key, current.hash)
    current.is_closed = True
    return state


def close_unfinished(desk: Desk, worker: bytes, backbone: bytes) -> int:
    """Close the keys of a pair that no open grant covers; return how many.

    Called when a grant of the pair was released, with everything written out.
    """
    return _close_all(desk, desk.closings.unclosed_of(worker, backbone))


def close_due(desk: Desk) -> int:
    """Look once through all keys for what should have been closed; return how many.

    A ledger of an earlier version left final vouchers and ended grants without a
    closing. Each call looks at a part; when all were seen it returns 0 at once.
    """
    return _close_all(desk, desk.closings.next_unclosed(_SEEN_AT_ONCE))


def release_due(desk: Desk) -> int:
    """Make available what no dispute holds back any more; return how many.

    At most some hundreds at once: who gets a full number calls again.
    """
    due = desk.closings.release_due(desk.now_us, _MAX_AT_ONCE)
    for state in due:
        pending = (state.worker, AccountKind.WORKER_PENDING)
        available = (state.worker, AccountKind.WORKER_AVAILABLE)
        move(desk, state, TransferCode.SETTLE, (pending, available), state.net_uc)
        state.state, state.released_us = ClosedState.RELEASED, desk.now_us
        desk.closings.change(state)
    return len(due)


def dispute(desk: Desk, state: ClosingState) -> None:
    """Keep a closed voucher from being released.

    Raises:
        NotFound: it is not in its window; nothing was changed.
    """
    _refuse_unless(state, ClosedState.CLOSED)
    if desk.now_us >= state.release_due_us:
        raise NotFound(f"the dispute window ended at {state.release_due_us} us")
    state.state = ClosedState.DISPUTED
    desk.closings.change(state)


def dismiss(desk: Desk, state: ClosingState) -> None:
    """Take a voucher's dispute as unfounded: it is released when it is due.

    Raises:
        NotFound: it is not disputed; nothing was changed.
    """
    _refuse_unless(state, ClosedState.DISPUTED)
    state.state = ClosedState.CLOSED
    desk.closings.change(state)


def reverse(desk: Desk, state: ClosingState) -> None:
    """Give a disputed voucher's net amount back to its backbone.

    Raises:
        NotFound: it is not disputed; nothing was changed.
    """
    _refuse_unless(state, ClosedState.DISPUTED)
    _give_back(desk, state)


def void(desk: Desk, state: ClosingState) -> None:
    """Give the net amount of a voucher back whose worker an audit convicted.

    Raises:
        NotFound: it is released or reversed; nothing was changed.
    """
    if state.state is not ClosedState.DISPUTED:
        _refuse_unless(state, ClosedState.CLOSED)
    _give_back(desk, state)


def move(
    desk: Desk,
    state: ClosingState,
    code: TransferCode,
    route: tuple[tuple[bytes, AccountKind], tuple[bytes, AccountKind]],
    amount_uc: int,
    *,
    is_new: bool = False,
) -> None:
    """Post one transfer of a closing, named by its voucher; nothing for zero."""
    if amount_uc:
        posting = Posting(
            code=code,
            key=state.content_hash,
            debit=route[0],
            credit=route[1],
            amount_uc=amount_uc,
            reference=state.content_hash,
        )
        desk.book.post(posting, desk.now_us, is_new=is_new)


def _close_all(desk: Desk, unclosed: list[int]) -> int:
    """Close keys; one whose leaves are damaged keeps no other one open.

    Raises:
        DifferenceFound: of the first that stays open; the others are closed.
    """
    damaged: DifferenceFound | None = None
    for voucher_id in unclosed:
        try:
            close(desk, desk.stored_voucher(voucher_id))
        except DifferenceFound as exc:
            damaged = damaged or exc
    if damaged is not None:
        raise damaged
    return len(unclosed)


def _give_back(desk: Desk, state: ClosingState) -> None:
    pending = (state.worker, AccountKind.WORKER_PENDING)
    deposit = (state.backbone, AccountKind.CLIENT_DEPOSIT)
    move(desk, state, TransferCode.REVERSE, (pending, deposit), state.net_uc)
    state.state, state.released_us = ClosedState.REVERSED, desk.now_us
    desk.closings.change(state)


def _refuse_unless(state: ClosingState, wanted: ClosedState) -> None:
    if state.state != wanted:
        raise NotFound(
            f"voucher {state.content_hash.hex()[:8]} is {state.state}, not {wanted}"
        )
