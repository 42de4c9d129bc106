"""Standby pay as parts of payouts: which is free, and which payout takes it.

Contract: as `ledger.payout_plan`. What a worker got of one paper is a part: it is
released when it is booked, whole, and in at most one living payout.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Select,
    exists,
    func,
    insert,
    select,
)

from ledger.schema_closing import payout
from ledger.schema_standby import payout_standby, standby_paper, standby_pay

__all__ = ["DEAD_STATES", "add_standby_items", "standby_parts", "standby_sums"]

DEAD_STATES = ("failed", "void")  # a payout that pays nobody; its parts are free again
_AT_ONCE = 10_000  # parts read and written at once
_AMOUNT = payout_standby.c.amount_uc


def standby_parts(payout_id: ColumnElement[bytes]) -> tuple[ScalarSelect[int], ...]:
    """Return the count and the sum of a payout's standby pay, for a query."""
    return tuple(
        select(each).where(payout_standby.c.payout_id == payout_id).scalar_subquery()
        for each in (func.count(), func.coalesce(func.sum(_AMOUNT), 0))
    )


def standby_sums(
    connection: Connection, *, before: int | None = None, since: int | None = None
) -> Iterator[tuple[bytes, int, int]]:
    """Yield (worker, parts, sum) of the pay that no living payout has."""
    worker = standby_pay.c.worker
    sums = (func.count(), func.sum(standby_pay.c.amount_uc))
    statement = _unpaid(worker, *sums, before=before, since=since).group_by(worker)
    for owner, n_parts, total in connection.execute(statement):
        yield owner, n_parts, int(total)


def add_standby_items(
    connection: Connection, payout_of: Mapping[bytes, bytes], end_us: int
) -> int:
    """Put workers' free standby pay into their payouts; return how many parts.

    Args:
        connection: where the payouts' rows are written already.
        payout_of: the new payout's id of each worker.
        end_us: the period's end.
    """
    n_items, last = 0, 0
    while rows := _next_papers(connection, end_us, last):
        last = rows[-1].paper
        items = [
            {
                "payout_id": payout_of[row.worker],
                "paper": row.paper,
                "worker": row.worker,
                "amount_uc": row.amount_uc,
            }
            for row in rows
            if row.worker in payout_of
        ]
        if items:
            connection.execute(insert(payout_standby), items)
        n_items += len(items)
    return n_items


def _next_papers(connection: Connection, end_us: int, last: int) -> Sequence[Row[Any]]:
    """Return the free pay of the next papers after `last`, each paper's whole."""
    paper = standby_pay.c.paper
    free = _unpaid(paper, before=end_us).where(paper > last).order_by(paper)
    until = connection.execute(free.limit(_AT_ONCE)).scalars().all()
    if not until:
        return []
    columns = (paper, standby_pay.c.worker, standby_pay.c.amount_uc)
    chosen = _unpaid(*columns, before=end_us)
    return connection.execute(
        chosen.where(paper > last, paper <= until[-1]).order_by(paper)
    ).all()


def _unpaid(
    *columns: ColumnElement[Any], before: int | None = None, since: int | None = None
) -> Select[Any]:
    """Select standby pay that was given and that no living payout has."""
    is_taken = exists().where(
        payout_standby.c.paper == standby_pay.c.paper,
        payout_standby.c.payout_id == payout.c.id,
        payout.c.state.not_in(DEAD_STATES),
        payout_standby.c.worker == standby_pay.c.worker,
    )
    statement = (
        select(*columns)
        .select_from(standby_pay)
        .join(standby_paper, standby_paper.c.seq == standby_pay.c.paper)
        .where(standby_pay.c.state == "paid", ~is_taken)
    )
    if before is not None:
        statement = statement.where(standby_paper.c.booked_us < before)
    if since is not None:
        statement = statement.where(standby_paper.c.booked_us >= since)
    return statement
