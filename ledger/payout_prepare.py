"""Prepare the payouts of a closed period: who gets how much, once.

Contract: for every worker with a payee, all that was released before the period's end
and is in no living payout, in whole minor units of the currency. Without `commit` it
is said and nothing is written. With it, row, parts, first event and the transfer into
`payout_clearing` are one transaction. A worker without a payee, with too little, or
with a living payout of the period is left out, with the reason: the others are
prepared all the same. A second run finds nothing to pay.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, insert, select

from ledger.accounts import TransferCode
from ledger.amounts import format_credits
from ledger.errors import OperationRefused
from ledger.office import Office, Operation
from ledger.params import Params
from ledger.payout_plan import DEAD_STATES, Payable, add_items, payables
from ledger.payouts import (
    MAX_AT_ONCE,
    PayoutState,
    note_event,
    payout_id_of,
    post_payout,
)
from ledger.periods_closing import closed_period
from ledger.rates import MAX_MINOR, Rate, format_money
from ledger.schema_closing import payout

__all__ = ["ADAPTERS", "PREPARE_OPERATIONS", "prepare"]

ADAPTERS = ("bank", "http")
_MAX_NAME = 140  # of a payee, as the bank format has it


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """One payout, decided and not yet written."""

    id: bytes
    payable: Payable
    attempt: int
    destination: str
    minor: int
    amount_uc: int

    @property
    def rest_uc(self) -> int:
        """What stays available: less than a minor unit."""
        return self.payable.payable_uc - self.amount_uc


def prepare(office: Office, params: Mapping[str, object]) -> dict[str, object]:
    """Prepare payouts: `period`, `adapter`, `rate`, `payees`, `commit`.

    `payees` are objects of `worker` (hex) and `destination`, a name; `rate` is like
    `1 credit = 0.01 EUR`. Answers `payouts`, `skipped` with reasons, and sums.

    Raises:
        OperationRefused, PeriodRefused: a parameter cannot be read.
        NotFound: the period is not closed.
    """
    read = Params(params)
    period_row = closed_period(office.connection, read.text("period", max_chars=24))
    adapter = read.text("adapter", max_chars=20)
    if adapter not in ADAPTERS:
        raise OperationRefused(f"adapter {adapter!r} is none of {', '.join(ADAPTERS)}")
    rate = Rate.parse(read.text("rate", max_chars=100))
    payees = _payees(read)
    commit = read.flag("commit")
    read.done()
    planned: list[_Planned] = []
    skipped: list[dict[str, object]] = []
    attempts = _attempts(office.connection, period_row.id)
    for found in payables(office.connection, period_row.end_us):
        made = _plan(office, found, period_row, rate, payees, attempts)
        if isinstance(made, _Planned):
            planned.append(made)
        elif made:
            skipped.append(
                {
                    "worker": found.worker.hex(),
                    "amount_uc": found.payable_uc,
                    "amount": format_credits(found.payable_uc),
                    "reason": made,
                }
            )
    if commit:
        _write(office, planned, period_row, adapter, rate)
    total_minor = sum(one.minor for one in planned)
    return {
        "period": period_row.name,
        "rate": str(rate),
        "currency": rate.currency,
        "committed": commit,
        "payouts": [_document(one, rate) for one in planned],
        "skipped": skipped,
        "total_uc": sum(one.amount_uc for one in planned),
        "total_money": format_money(total_minor, rate.currency),
        "rounding_uc": sum(one.rest_uc for one in planned),
    }


PREPARE_OPERATIONS: dict[str, Operation] = {"payout.prepare": prepare}


def _plan(
    office: Office,
    found: Payable,
    period_row: Row[Any],
    rate: Rate,
    payees: Mapping[bytes, str],
    attempts: Mapping[int, tuple[int, bool]],
) -> _Planned | str:
    """Return a worker's payout, or why there is none ("" for nothing to say)."""
    if found.payable_uc <= 0:
        return ""
    last_attempt, is_living = attempts.get(found.account_id, (0, False))
    minor = rate.minor(found.payable_uc)
    if is_living:
        # What rounding left of the payout that there is, is not worth a word.
        return "has a payout of this period" if minor else ""
    if minor == 0:
        return f"less than {format_money(1, rate.currency)} {rate.currency}"
    if minor > MAX_MINOR:
        limit = format_money(MAX_MINOR, rate.currency)
        return f"more than {limit} {rate.currency}, the most of one payment"
    destination = payees.get(found.worker)
    if destination is None:
        return "no payee"
    attempt = last_attempt + 1
    borders = period_row.start_us, period_row.end_us
    return _Planned(
        id=payout_id_of(office.desk.owner.ledger, borders, found.worker, attempt),
        payable=found,
        attempt=attempt,
        destination=destination,
        minor=minor,
        amount_uc=rate.credits_uc(minor),
    )


def _write(
    office: Office,
    planned: Sequence[_Planned],
    period_row: Row[Any],
    adapter: str,
    rate: Rate,
) -> None:
    if not planned:
        return
    shared = {
        "period_id": period_row.id,
        "adapter": adapter,
        "currency": rate.currency,
        "rate": str(rate),
        "state": PayoutState.PREPARED.value,
        "prepared_us": office.now_us,
        "changed_us": office.now_us,
        "external_ref": None,
        "detail": "",
    }
    rows = [
        {
            "id": one.id,
            "account_id": one.payable.account_id,
            "attempt": one.attempt,
            "idempotency_key": one.id.hex(),
            "destination": one.destination,
            "amount_uc": one.amount_uc,
            "amount_minor": one.minor,
        }
        for one in planned
    ]
    for one in planned:
        worker = one.payable.worker
        post_payout(office, TransferCode.PAY, one.id, worker, one.amount_uc)
    office.connection.execute(insert(payout), [shared | row for row in rows])
    payout_of = {one.payable.worker: one.id for one in planned}
    add_items(office.connection, payout_of, period_row.end_us)
    for one in planned:
        note_event(office, one.id, PayoutState.PREPARED, "")


def _document(one: _Planned, rate: Rate) -> dict[str, object]:
    return {
        "id": one.id.hex(),
        "worker": one.payable.worker.hex(),
        "attempt": one.attempt,
        "destination": one.destination,
        "parts": one.payable.parts,
        "amount_uc": one.amount_uc,
        "amount": format_credits(one.amount_uc),
        "amount_minor": one.minor,
        "money": format_money(one.minor, rate.currency),
        "currency": rate.currency,
        "rounding_uc": one.rest_uc,
    }


def _payees(read: Params) -> dict[bytes, str]:
    found: dict[bytes, str] = {}
    for one in read.rows("payees", max_rows=MAX_AT_ONCE):
        worker = one.raw("worker", 32)
        if worker in found:
            raise OperationRefused(f"worker {worker.hex()} has two payees")
        found[worker] = one.text("destination", max_chars=_MAX_NAME)
        one.done()
    return found


def _attempts(connection: Connection, period_id: int) -> dict[int, tuple[int, bool]]:
    """Return the last attempt of each account, and whether one of them lives."""
    found: dict[int, tuple[int, bool]] = {}
    rows = connection.execute(
        select(payout.c.account_id, payout.c.attempt, payout.c.state).where(
            payout.c.period_id == period_id
        )
    )
    for account_id, attempt, state in rows:
        last, is_living = found.get(account_id, (0, False))
        found[account_id] = (
            max(last, attempt),
            is_living or state not in DEAD_STATES,
        )
    return found
