"""The rules of a holdback: given back when its time is over, or forfeited.

Contract: as `ledger.closing`, whose transfers' names hold here as well. Both outcomes
have one transfer id, so the database itself refuses the second. A disputed voucher's
holdback waits for the decision.

    holdback   held -> released     `holdback_due`: to worker_available
               held -> forfeited    `forfeit`: to the operator's penalty account
"""

from ledger.accounts import EXTERNAL_OWNER, AccountKind, TransferCode
from ledger.closing import move
from ledger.closings import ClosingState, HoldbackState
from ledger.desk import Desk
from ledger.errors import NotFound

__all__ = ["forfeit", "holdback_due"]

_MAX_AT_ONCE = 512  # in one job of the one writer; the next one goes on


def holdback_due(desk: Desk) -> int:
    """Give back the holdbacks whose time is over; return how many.

    At most some hundreds at once: who gets a full number calls again.
    """
    due = desk.closings.holdback_due(desk.now_us, _MAX_AT_ONCE)
    for state in due:
        held = (state.worker, AccountKind.WORKER_HELD)
        available = (state.worker, AccountKind.WORKER_AVAILABLE)
        move(desk, state, TransferCode.UNHOLD, (held, available), state.held_uc)
        state.holdback, state.holdback_us = HoldbackState.RELEASED, desk.now_us
        desk.closings.change(state)
    return len(due)


def forfeit(desk: Desk, state: ClosingState) -> None:
    """Take a holdback as a penalty.

    Raises:
        NotFound: nothing is held; nothing was changed.
    """
    if state.holdback != HoldbackState.HELD:
        raise NotFound(
            f"holdback of voucher {state.content_hash.hex()[:8]} is {state.holdback}"
        )
    held = (state.worker, AccountKind.WORKER_HELD)
    penalty = (EXTERNAL_OWNER, AccountKind.PENALTY)
    move(desk, state, TransferCode.FORFEIT, (held, penalty), state.held_uc)
    state.holdback, state.holdback_us = HoldbackState.FORFEITED, desk.now_us
    desk.closings.change(state)
