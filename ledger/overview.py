"""The whole ledger on one page: what an auditor asks first.

Contract: read-only, of one moment. Counts and sums only; nothing here is verified (that
is `ledger.audit`). Sums over many accounts are made here, not in SQL.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, func, literal, select

from ledger.balances import balances
from ledger.schema import filing, grant, rejected, transfer, voucher
from ledger.schema_beacon import audit, beacon
from ledger.schema_closing import (
    checkpoint,
    closing,
    cosignature,
    dispute,
    equivocation,
    leaf_file_state,
    one_sided,
    payout,
    period,
    policy,
)
from ledger.schema_standby import price_epoch

__all__ = ["CountLine", "Overview", "overview"]


@dataclass(frozen=True, slots=True)
class CountLine:
    """How many there are of a kind, and of how many micro-credits."""

    what: str
    state: str
    count: int
    amount_uc: int | None  # None where it is no matter of money


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The ledger of one moment."""

    balances_uc: Mapping[str, int]  # by kind of account; they sum to zero
    debits_uc: int
    credits_uc: int
    lines: tuple[CountLine, ...]
    first_us: int  # of the transfers, 0 if there are none
    last_us: int
    log_size: int  # vouchers that have a place in the log
    checkpoint_size: int  # of them, under a signed head
    checkpoint_root: bytes
    witnesses: int  # that cosigned the newest head
    last_closed_period: str


def overview(connection: Connection) -> Overview:
    """Return counts and sums of everything in the ledger."""
    accounts = balances(connection)
    by_kind: dict[str, int] = {}
    for line in accounts:
        by_kind[line.kind] = by_kind.get(line.kind, 0) + line.balance_uc
    head = connection.execute(
        select(checkpoint).order_by(checkpoint.c.size.desc()).limit(1)
    ).one_or_none()
    size = head.size if head else 0
    borders = connection.execute(
        select(func.min(transfer.c.posted_us), func.max(transfer.c.posted_us))
    ).one()
    last_period = connection.execute(
        select(period.c.name).order_by(period.c.end_us.desc()).limit(1)
    ).scalar_one_or_none()
    return Overview(
        balances_uc=by_kind,
        debits_uc=sum(line.debits_uc for line in accounts),
        credits_uc=sum(line.credits_uc for line in accounts),
        lines=tuple(_lines(connection)),
        first_us=borders[0] or 0,
        last_us=borders[1] or 0,
        log_size=_count(connection, closing),
        checkpoint_size=size,
        checkpoint_root=head.root if head else b"",
        witnesses=_count(connection, cosignature, cosignature.c.size == size),
        last_closed_period=last_period or "",
    )


def _lines(connection: Connection) -> list[CountLine]:
    lines = _transfers(connection)
    lines += _by_state(connection, "grants", grant.c.state, grant.c.used_uc)
    lines.append(_all(connection, "vouchers", voucher, voucher.c.amount_uc))
    lines.append(_all(connection, "receipts", filing, filing.c.amount_uc))
    lines += _by_state(connection, "closed", closing.c.state, closing.c.amount_uc)
    lines += _by_state(connection, "holdbacks", closing.c.holdback, closing.c.held_uc)
    lines += _by_state(connection, "one-sided", one_sided.c.state, None)
    lines += _by_state(connection, "rejected", rejected.c.reason, None)
    lines += _by_state(connection, "disputes", dispute.c.state, None)
    lines += _by_state(connection, "audits", audit.c.state, None)
    lines += _by_state(connection, "payouts", payout.c.state, payout.c.amount_uc)
    paid = price_epoch.c.paid_uc
    lines.append(_all(connection, "standby papers", price_epoch, paid))
    for what, table in (
        ("equivocations", equivocation),
        ("beacons", beacon),
        ("policies", policy),
        ("closed periods", period),
        ("checkpoints", checkpoint),
    ):
        lines.append(CountLine(what, "", _count(connection, table), None))
    lines += _by_state(connection, "leaf files", leaf_file_state.c.state, None)
    n_open = _count(connection, voucher) - _count(connection, closing)
    return [*lines, CountLine("open vouchers", "", n_open, None)]


def _by_state(
    connection: Connection,
    what: str,
    state: ColumnElement[str],
    amount: ColumnElement[int] | None,
) -> list[CountLine]:
    """Return counts by a column, with sums of amounts that the books bound."""
    total = literal(0) if amount is None else func.sum(amount)
    rows = connection.execute(
        select(state, func.count(), total).group_by(state).order_by(state)
    )
    return [
        CountLine(what, name, int(count), None if amount is None else int(sum_uc))
        for name, count, sum_uc in rows
    ]


def _transfers(connection: Connection) -> list[CountLine]:
    """Return transfers by code; money that goes round may pass what SQL can add."""
    sums: dict[str, list[int]] = {}
    rows = connection.execute(
        select(transfer.c.code, func.count(), func.sum(transfer.c.amount_uc)).group_by(
            transfer.c.code, transfer.c.debit_id
        )
    )
    for code, count, sum_uc in rows:
        entry = sums.setdefault(code, [0, 0])
        entry[0] += int(count)
        entry[1] += int(sum_uc)
    return [CountLine("transfers", code, *sums[code]) for code in sorted(sums)]


def _all(
    connection: Connection, what: str, table: Table, amount: ColumnElement[int]
) -> CountLine:
    row = connection.execute(
        select(func.count(), func.sum(amount)).select_from(table)
    ).one()
    return CountLine(what, "", int(row[0]), int(row[1] or 0))


def _count(
    connection: Connection, table: Table, *conditions: ColumnElement[bool]
) -> int:
    statement = select(func.count()).select_from(table).where(*conditions)
    return int(connection.execute(statement).scalar_one())
