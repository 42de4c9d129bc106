"""What standby pay came to: of a worker's models, by worker, day or expert, in all.

Contract: read-only. Pay belongs to the period in which it was booked, which is when it
came into the worker's account; what workers that are not known here would have got is
never in a sum. Amounts are integers of micro-credits.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, func, select

from ledger.accounts import EXTERNAL_OWNER, AccountKind
from ledger.periods import Period, format_us
from ledger.schema import account
from ledger.schema_standby import holding, price_epoch, standby_paper, standby_pay

__all__ = [
    "StandbyLine",
    "pot_uc",
    "standby_by_day",
    "standby_by_expert",
    "standby_by_worker",
    "standby_lines",
]

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyLine:
    """What a worker got for the replicas that it held of one model."""

    manifest_hash: bytes
    epochs: int
    replicas: int  # summed over the epochs
    amount_uc: int
    first_epoch: int
    last_epoch: int


def pot_uc(connection: Connection) -> int:
    """Return what the pot holds."""
    row = connection.execute(
        select(account.c.credits_uc, account.c.debits_uc).where(
            account.c.owner == EXTERNAL_OWNER,
            account.c.kind == AccountKind.STANDBY.value,
        )
    ).one_or_none()
    return 0 if row is None else row.credits_uc - row.debits_uc


def standby_lines(
    connection: Connection, worker: bytes, period: Period
) -> tuple[StandbyLine, ...]:
    """Return a worker's standby pay of a period, by model."""
    statement = (
        select(
            price_epoch.c.manifest_hash,
            func.count().label("epochs"),
            func.sum(standby_pay.c.replicas).label("replicas"),
            func.sum(standby_pay.c.amount_uc).label("amount_uc"),
            func.min(price_epoch.c.epoch).label("first_epoch"),
            func.max(price_epoch.c.epoch).label("last_epoch"),
        )
        .select_from(standby_pay)
        .join(standby_paper, standby_paper.c.seq == standby_pay.c.paper)
        .join(price_epoch, price_epoch.c.paper == standby_pay.c.paper)
        .where(standby_pay.c.worker == worker, *_given(period))
        .group_by(price_epoch.c.manifest_hash)
        .order_by(price_epoch.c.manifest_hash)
    )
    return tuple(
        StandbyLine(
            manifest_hash=row.manifest_hash,
            epochs=row.epochs,
            replicas=int(row.replicas),  # a Decimal from PostgreSQL
            amount_uc=int(row.amount_uc),
            first_epoch=row.first_epoch,
            last_epoch=row.last_epoch,
        )
        for row in connection.execute(statement)
    )


def standby_by_worker(
    connection: Connection, period: Period, worker: bytes | None = None
) -> Mapping[str, int]:
    """Return standby pay by worker, in hex."""
    by = standby_pay.c.worker
    statement = (
        select(by, func.sum(standby_pay.c.amount_uc))
        .join(standby_paper, standby_paper.c.seq == standby_pay.c.paper)
        .where(*_given(period), *_of(standby_pay.c.worker, worker))
        .group_by(by)
    )
    return {
        owner.hex(): int(amount_uc)
        for owner, amount_uc in connection.execute(statement)
    }


def standby_by_day(
    connection: Connection, period: Period, worker: bytes | None = None
) -> Mapping[str, int]:
    """Return standby pay by UTC day, 2026-11-30."""
    each = (
        select(
            (standby_paper.c.booked_us // _DAY_US).label("day"),
            standby_pay.c.amount_uc,
        )
        .join(standby_pay, standby_pay.c.paper == standby_paper.c.seq)
        .where(*_given(period), *_of(standby_pay.c.worker, worker))
        .subquery()
    )
    statement = select(each.c.day, func.sum(each.c.amount_uc)).group_by(each.c.day)
    return {
        format_us(day * _DAY_US)[:10]: int(amount_uc)
        for day, amount_uc in connection.execute(statement)
    }


def standby_by_expert(
    connection: Connection,
    period: Period,
    worker: bytes | None = None,
    *,
    is_by_layer: bool,
) -> Mapping[str, int]:
    """Return standby pay by expert, layer/expert, or by layer."""
    keys = [holding.c.layer] if is_by_layer else [holding.c.layer, holding.c.expert]
    is_same = (standby_pay.c.paper == holding.c.paper) & (
        standby_pay.c.worker == holding.c.worker
    )
    statement = (
        select(*keys, func.sum(holding.c.amount_uc))
        .select_from(holding)
        .join(standby_pay, is_same)
        .join(standby_paper, standby_paper.c.seq == holding.c.paper)
        .where(*_given(period), *_of(holding.c.worker, worker))
        .group_by(*keys)
    )
    return {
        "/".join(map(str, key)): int(amount_uc)
        for *key, amount_uc in connection.execute(statement)
    }


def _given(period: Period) -> tuple[ColumnElement[bool], ...]:
    """Return the conditions that pay was given, and in a period."""
    booked_us = standby_paper.c.booked_us
    return (
        standby_pay.c.state == "paid",
        booked_us >= period.start_us,
        booked_us < period.end_us,
    )


def _of(
    column: ColumnElement[bytes], worker: bytes | None
) -> tuple[ColumnElement[bool], ...]:
    return () if worker is None else (column == worker,)
