"""What can be paid out to whom: released, unpaid, in whole minor units of a currency.

Contract: read-only. A *part* is the net amount or the released holdback of one closed
voucher; it is in at most one living payout (one that neither failed nor was voided). A
payout of a period takes every part released before the period's end that is in none.
Its amount is whole minor units of what the worker has available, less what was released
after that end: the rest, and what earlier payouts left, stays available and is paid
with the next. Parts are whole, so each receipt is in one payout; the amount may differ
from their sum by that rounding.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Select,
    Text,
    and_,
    exists,
    func,
    insert,
    literal,
    select,
)

from ledger.accounts import AccountKind
from ledger.schema import account
from ledger.schema_closing import closing, payout, payout_item

__all__ = ["DEAD_STATES", "Payable", "add_items", "payables"]

DEAD_STATES = ("failed", "void")  # a payout that pays nobody; its parts are free again
_PARTS = ("net", "holdback")


@dataclass(slots=True, kw_only=True)
class Payable:
    """What one worker could be paid for a period."""

    worker: bytes  # [32]
    account_id: int  # its worker_available account
    available_uc: int  # balance now
    parts: int = 0  # released before the period's end, in no living payout
    parts_uc: int = 0
    later_uc: int = field(default=0)  # released since, for a later period

    @property
    def payable_uc(self) -> int:
        """What is there for this period, rounding of earlier payouts included."""
        return self.available_uc - self.later_uc


def payables(connection: Connection, end_us: int) -> list[Payable]:
    """Return every worker with something available, by account.

    Args:
        connection: an open transaction with everything written out.
        end_us: the period's end; what was released later is left for a later one.
    """
    found = {
        row.owner: Payable(
            worker=row.owner,
            account_id=row.id,
            available_uc=row.credits_uc - row.debits_uc,
        )
        for row in connection.execute(
            select(account)
            .where(
                account.c.kind == AccountKind.WORKER_AVAILABLE.value,
                account.c.credits_uc > account.c.debits_uc,
            )
            .order_by(account.c.id)
        )
    }
    for part in _PARTS:
        for owner, n_parts, total in _sums(connection, part, before=end_us):
            if owner in found:
                found[owner].parts += n_parts
                found[owner].parts_uc += total
        for owner, _, total in _sums(connection, part, since=end_us):
            if owner in found:
                found[owner].later_uc += total
    return list(found.values())


def add_items(
    connection: Connection, payout_id: bytes, worker: bytes, end_us: int
) -> int:
    """Put a worker's free parts into a payout whose row exists; return how many."""
    n_items = 0
    names = ["payout_id", "voucher_id", "part", "amount_uc"]
    for part in _PARTS:
        amount, _ = _columns(part)
        chosen = _unpaid(
            part,
            literal(payout_id, LargeBinary),
            closing.c.voucher_id,
            literal(part, Text),
            amount,
            before=end_us,
        ).where(account.c.owner == worker)
        result = connection.execute(insert(payout_item).from_select(names, chosen))
        n_items += result.rowcount
    return n_items


def _sums(
    connection: Connection, part: str, **bounds: int
) -> Iterable[tuple[bytes, int, int]]:
    amount, _ = _columns(part)
    chosen = _unpaid(part, account.c.owner, func.count(), func.sum(amount), **bounds)
    for owner, n_parts, total in connection.execute(chosen.group_by(account.c.owner)):
        yield owner, n_parts, int(total)


def _unpaid(
    part: str,
    *columns: ColumnElement[Any],
    before: int | None = None,
    since: int | None = None,
) -> Select[Any]:
    """Select released parts that no living payout has."""
    amount, released_us = _columns(part)
    state = closing.c.state if part == "net" else closing.c.holdback
    is_taken = exists().where(
        payout_item.c.voucher_id == closing.c.voucher_id,
        payout_item.c.part == part,
        payout_item.c.payout_id == payout.c.id,
        payout.c.state.not_in(DEAD_STATES),
    )
    conditions = [state == "released", amount > 0, ~is_taken]
    if before is not None:
        conditions.append(released_us < before)
    if since is not None:
        conditions.append(released_us >= since)
    joined = closing.join(account, account.c.id == closing.c.worker_account)
    return select(*columns).select_from(joined).where(and_(*conditions))


def _columns(part: str) -> tuple[ColumnElement[int], ColumnElement[int]]:
    """Return the columns of a part's amount and of when it was released."""
    if part == "net":
        return closing.c.net_uc, closing.c.released_us
    return closing.c.held_uc, closing.c.holdback_us
