"""Every writing command of the ledger, by name: one way in, running or not.

Contract: a ledger that runs holds its folder's lock, so a command cannot write there
itself. It asks for an operation by name: of the running service through its control
socket, else of the store that the command opens. Both come to `run_operation`, on the
writer's thread. An operation that is repeated does nothing twice. Where money moves,
`commit` must be true: without it the answer says what would be done.
"""

from collections.abc import Mapping

from ledger.dispute_operations import DISPUTE_OPERATIONS
from ledger.errors import OperationRefused
from ledger.log.cosigning import COSIGNING_OPERATIONS
from ledger.office import Office, Operation
from ledger.payout_prepare import PREPARE_OPERATIONS
from ledger.payouts import PAYOUT_OPERATIONS
from ledger.periods_closing import PERIOD_OPERATIONS
from ledger.policies import policy_set
from ledger.standby_pot import POT_OPERATIONS

__all__ = ["OPERATIONS", "run_operation"]


def _ping(office: Office, params: Mapping[str, object]) -> Mapping[str, object]:
    """Say whose ledger this is, and its time."""
    if params:
        raise OperationRefused("ping takes no parameters")
    return {"ledger": office.desk.owner.ledger.hex(), "now_us": office.now_us}


OPERATIONS: dict[str, Operation] = {
    "ping": _ping,
    "policy.set": policy_set,
    **COSIGNING_OPERATIONS,
    **DISPUTE_OPERATIONS,
    **PERIOD_OPERATIONS,
    **PREPARE_OPERATIONS,
    **PAYOUT_OPERATIONS,
    **POT_OPERATIONS,
}


def run_operation(
    office: Office, name: str, params: Mapping[str, object]
) -> Mapping[str, object]:
    """Run an operation on the writer's thread, in its open transaction.

    Raises:
        OperationRefused: there is no such operation, or not with these parameters.
        LedgerError: it refused; nothing was changed.
    """
    operation = OPERATIONS.get(name)
    if operation is None:
        raise OperationRefused(f"no operation {name[:60]!r}")
    office.desk.write_out()
    result = operation(office, params)
    office.desk.write_out()
    return result
