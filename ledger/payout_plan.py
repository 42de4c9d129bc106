"""What can be paid out to whom: released, unpaid, in whole minor units of a currency.

Contract: read-only. A *part* is the net amount or the released holdback of one closed
voucher, or what a worker got of one STANDBY paper (`ledger.payout_standby`); it is in
at most one living payout (one that neither failed nor was voided). A payout of a period
takes every part released before the period's end that is in none. Its amount is whole
minor units of what the worker has available, less what was released after that end: the
rest, and what earlier payouts left, stays available and is paid with the next. Parts
are whole, so each receipt is in one payout; the amount may differ from their sum by
that rounding.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    and_,
    exists,
    func,
    insert,
    or_,
    select,
)

from ledger.accounts import AccountKind
from ledger.payout_standby import DEAD_STATES, add_standby_items, standby_sums
from ledger.schema import account
from ledger.schema_closing import closing, payout, payout_item

__all__ = ["DEAD_STATES", "Payable", "add_items", "payables"]

_PARTS = ("net", "holdback")
_AT_ONCE = 10_000  # parts read and written at once


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
    owners = _owners(connection)
    for part in _PARTS:
        for account_id, n_parts, total in _sums(connection, part, before=end_us):
            payable = found.get(owners[account_id])
            if payable is not None:
                payable.parts += n_parts
                payable.parts_uc += total
        for account_id, _, total in _sums(connection, part, since=end_us):
            payable = found.get(owners[account_id])
            if payable is not None:
                payable.later_uc += total
    for worker, n_parts, total in standby_sums(connection, before=end_us):
        if worker in found:
            found[worker].parts += n_parts
            found[worker].parts_uc += total
    for worker, _, total in standby_sums(connection, since=end_us):
        if worker in found:
            found[worker].later_uc += total
    return list(found.values())


def add_items(
    connection: Connection, payout_of: Mapping[bytes, bytes], end_us: int
) -> int:
    """Put workers' free parts into their payouts; return how many.

    The closings are read once, for all workers together, in the order of an index.

    Args:
        connection: where the payouts' rows are written already.
        payout_of: the new payout's id of each worker.
        end_us: the period's end.
    """
    n_items = add_standby_items(connection, payout_of, end_us)
    owners = _owners(connection)
    for part in _PARTS:
        last = (0, 0)
        while rows := _next_unpaid(connection, part, end_us, last):
            last = rows[-1].due_us, rows[-1].voucher_id
            items = [
                {
                    "payout_id": payout_of[owners[row.worker_account]],
                    "voucher_id": row.voucher_id,
                    "part": part,
                    "amount_uc": row.amount_uc,
                }
                for row in rows
                if owners[row.worker_account] in payout_of
            ]
            if items:
                connection.execute(insert(payout_item), items)
            n_items += len(items)
    return n_items


def _owners(connection: Connection) -> dict[int, bytes]:
    """Return the worker of each account that vouchers earn into."""
    kind = AccountKind.WORKER_PENDING.value
    rows = connection.execute(
        select(account.c.id, account.c.owner).where(account.c.kind == kind)
    )
    return {row.id: row.owner for row in rows}


def _next_unpaid(
    connection: Connection, part: str, end_us: int, last: tuple[int, int]
) -> Sequence[Row[Any]]:
    """Return the next free parts after `last`, a due time and a voucher's id."""
    amount, _ = _columns(part)
    due_us = closing.c.release_due_us if part == "net" else closing.c.holdback_due_us
    voucher_id = closing.c.voucher_id
    chosen = _unpaid(
        part,
        voucher_id,
        closing.c.worker_account,
        amount.label("amount_uc"),
        due_us.label("due_us"),
        before=end_us,
    )
    is_next = or_(due_us > last[0], voucher_id > last[1])
    return connection.execute(
        chosen.where(due_us >= last[0], is_next)
        .order_by(due_us, voucher_id)
        .limit(_AT_ONCE)
    ).all()


def _sums(
    connection: Connection, part: str, **bounds: int
) -> Iterable[tuple[int, int, int]]:
    """Return (account, parts, sum) for each account that vouchers earn into."""
    amount, _ = _columns(part)
    grouped = closing.c.worker_account
    chosen = _unpaid(part, grouped, func.count(), func.sum(amount), **bounds)
    for account_id, n_parts, total in connection.execute(chosen.group_by(grouped)):
        yield account_id, n_parts, int(total)


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
    return select(*columns).where(and_(*conditions))


def _columns(part: str) -> tuple[ColumnElement[int], ColumnElement[int]]:
    """Return the columns of a part's amount and of when it was released."""
    if part == "net":
        return closing.c.net_uc, closing.c.released_us
    return closing.c.held_uc, closing.c.holdback_us
