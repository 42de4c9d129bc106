"""What moved through workers' accounts in a period, and what they held at its borders.

Contract: read-only, from the transfers alone (never from the balances that are kept
beside them), so that statements check the balances. A worker has four accounts;
`moved` is the sum of each kind of transfer that touches them. All amounts are
integers of micro-credits, >= 0. A period that is over never changes: the ledger's time
does not go back. Two adjacent periods add up to both: opening is that of the first,
closing that of the second, what moved is the sum.

    closing = opening + earn + standby - fee - reverse - forfeit - round - paid

Sums in SQL are by account and stay below 2^63, since no account takes more; everything
else is summed here.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields

from sqlalchemy import ColumnElement, Connection, func, select

from ledger.accounts import AccountKind, TransferCode
from ledger.errors import DifferenceFound
from ledger.periods import Period
from ledger.schema import account, transfer

__all__ = ["WORKER_CODES", "WORKER_KINDS", "Flows", "WorkerBalances", "worker_flows"]

WORKER_KINDS = (
    AccountKind.WORKER_PENDING,
    AccountKind.WORKER_HELD,
    AccountKind.WORKER_AVAILABLE,
    AccountKind.PAYOUT_CLEARING,
)
WORKER_CODES = (
    TransferCode.EARN,
    TransferCode.FEE,
    TransferCode.HOLD,
    TransferCode.SETTLE,
    TransferCode.REVERSE,
    TransferCode.UNHOLD,
    TransferCode.FORFEIT,
    TransferCode.PAY,
    TransferCode.PAID,
    TransferCode.UNPAY,
    TransferCode.ROUND,
    TransferCode.STANDBY,
)
_BY_NAME: Mapping[str, TransferCode] = {code.value: code for code in WORKER_CODES}
# Every other one debits an account of the worker.
_BORN_OUTSIDE = frozenset({TransferCode.EARN, TransferCode.STANDBY})


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerBalances:
    """What a worker's four accounts hold, in micro-credits."""

    pending_uc: int = 0  # earned, not yet released
    held_uc: int = 0  # held back
    available_uc: int = 0  # may be paid out
    clearing_uc: int = 0  # in a payout

    @property
    def total_uc(self) -> int:
        """All that the worker is owed."""
        return sum(getattr(self, each.name) for each in fields(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Flows:
    """One worker's accounts over a period."""

    opening: WorkerBalances = WorkerBalances()
    moved: Mapping[TransferCode, int] = field(default_factory=dict)  # none left out
    closing: WorkerBalances = WorkerBalances()


@dataclass(slots=True)
class _Sums:
    """Of one worker: balances by kind, movements by code."""

    before: dict[AccountKind, int]
    after: dict[AccountKind, int]
    moved: dict[TransferCode, int]


def worker_flows(
    connection: Connection, period: Period, worker: bytes | None = None
) -> dict[bytes, Flows]:
    """Return the flows of every worker, or of one, by worker id in ascending order.

    A worker is in it if it had an account before the period's end.

    Raises:
        DifferenceFound: a transfer that no worker's account may have.
    """
    chosen = [
        account.c.kind.in_([kind.value for kind in WORKER_KINDS]),
        account.c.opened_us < period.end_us,
    ]
    if worker is not None:
        chosen.append(account.c.owner == worker)
    sums: dict[bytes, _Sums] = {}
    owners: dict[int, tuple[_Sums, AccountKind]] = {}
    columns = (account.c.id, account.c.owner, account.c.kind)
    for account_id, owner, kind in connection.execute(select(*columns).where(*chosen)):
        of_owner = sums.setdefault(owner, _empty())
        owners[account_id] = of_owner, AccountKind(kind)
    for sign, side in ((-1, transfer.c.debit_id), (1, transfer.c.credit_id)):
        for span in (None, period):
            rows = _side(connection, side, chosen, span, period.start_us)
            for account_id, code, amount_uc in rows:
                of_owner, kind = owners[account_id]
                _add(of_owner, kind, code, sign * amount_uc, is_before=span is None)
    return {owner: _flows(sums[owner]) for owner in sorted(sums)}


def _side(
    connection: Connection,
    side: ColumnElement[int],
    chosen: Iterable[ColumnElement[bool]],
    span: Period | None,
    before_us: int,
) -> list[tuple[int, TransferCode, int]]:
    """Return (account, code, sum) of one side, in a span or before an instant.

    Raises:
        DifferenceFound: a transfer of an unknown kind.
    """
    statement = (
        select(side, transfer.c.code, func.sum(transfer.c.amount_uc))
        .join(account, side == account.c.id)
        .where(*chosen)
        .group_by(side, transfer.c.code)
    )
    if span is None:
        statement = statement.where(transfer.c.posted_us < before_us)
    else:
        statement = statement.where(
            transfer.c.posted_us >= span.start_us, transfer.c.posted_us < span.end_us
        )
    return [
        (account_id, _code(code), int(amount_uc))  # a Decimal from PostgreSQL
        for account_id, code, amount_uc in connection.execute(statement)
    ]


def _code(text: str) -> TransferCode:
    code = _BY_NAME.get(text)
    if code is None:
        raise DifferenceFound(f"a transfer {text[:40]!r} moves a worker's account")
    return code


def _add(
    sums: _Sums,
    kind: AccountKind,
    code: TransferCode,
    amount_uc: int,
    *,
    is_before: bool,
) -> None:
    sums.after[kind] += amount_uc
    if is_before:
        sums.before[kind] += amount_uc
    elif (amount_uc > 0) == (code in _BORN_OUTSIDE):
        sums.moved[code] += abs(amount_uc)


def _empty() -> _Sums:
    return _Sums(
        dict.fromkeys(WORKER_KINDS, 0),
        dict.fromkeys(WORKER_KINDS, 0),
        dict.fromkeys(WORKER_CODES, 0),
    )


def _flows(sums: _Sums) -> Flows:
    return Flows(
        opening=_balances(sums.before), moved=sums.moved, closing=_balances(sums.after)
    )


def _balances(by_kind: Mapping[AccountKind, int]) -> WorkerBalances:
    return WorkerBalances(
        pending_uc=by_kind[AccountKind.WORKER_PENDING],
        held_uc=by_kind[AccountKind.WORKER_HELD],
        available_uc=by_kind[AccountKind.WORKER_AVAILABLE],
        clearing_uc=by_kind[AccountKind.PAYOUT_CLEARING],
    )
