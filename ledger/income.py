"""Who earned what, by worker, backbone, day, layer or expert.

Contract: read-only; amounts are integers of micro-credits. By worker, backbone and day
it is what filed vouchers added in a period, by the time they were stored. Which experts
it was for is known once a voucher's key is closed: by layer and expert it is what was
closed in the period. Rows are rows computed. Days are UTC days. Standby pay stands
beside it, by the time it was booked; no backbone gave it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, LargeBinary, func, select

from ledger.errors import DifferenceFound
from ledger.periods import Period, format_us
from ledger.prices import PRICE_HEAD_BYTES, read_base_uc
from ledger.schema import account, filing, grant, price_table, voucher
from ledger.schema_closing import closing, voucher_expert
from ledger.standby_sums import standby_by_day, standby_by_expert, standby_by_worker

__all__ = ["Earning", "IncomeBy", "IncomeLine", "base_prices", "earnings", "income"]

_DAY_US = 86_400_000_000
_MAX_ASKED = 500  # hashes in one query


class IncomeBy(StrEnum):
    """What income is summed by."""

    WORKER = "worker"
    BACKBONE = "backbone"
    DAY = "day"
    LAYER = "layer"
    EXPERT = "expert"


@dataclass(frozen=True, slots=True, kw_only=True)
class Earning:
    """What a worker earned from a backbone at the prices of one table."""

    worker: bytes
    backbone: bytes
    price_table_hash: bytes
    vouchers: int
    servings: int
    rows: int
    amount_uc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomeLine:
    """Income of one worker, backbone, day, layer or expert."""

    name: str  # hex id, 2026-11-30, layer, or layer/expert
    servings: int
    rows: int
    amount_uc: int
    standby_uc: int = 0  # for replicas held; not in the amount


def earnings(
    connection: Connection, period: Period, worker: bytes | None = None
) -> list[Earning]:
    """Return what was earned, by worker, backbone and price table."""
    filed = (
        select(
            voucher.c.worker,
            voucher.c.backbone,
            filing.c.grant_hash,
            func.count().label("vouchers"),
            *_sums(filing.c.leaves, filing.c.rows, filing.c.amount_uc),
        )
        .join(voucher, voucher.c.id == filing.c.voucher_id)
        .where(
            filing.c.posted_us >= period.start_us, filing.c.posted_us < period.end_us
        )
        .group_by(voucher.c.worker, voucher.c.backbone, filing.c.grant_hash)
    )
    if worker is not None:
        filed = filed.where(voucher.c.worker == worker)
    by_grant = filed.subquery()
    statement = select(by_grant, grant.c.price_table_hash).join(
        grant, grant.c.hash == by_grant.c.grant_hash
    )
    sums: dict[tuple[bytes, bytes, bytes], list[int]] = {}
    for row in connection.execute(statement):
        entry = sums.setdefault(
            (row.worker, row.backbone, row.price_table_hash), [0, 0, 0, 0]
        )
        for n, added in enumerate(
            (row.vouchers, row.servings, row.rows, row.amount_uc)
        ):
            entry[n] += int(added)  # a Decimal from PostgreSQL
    return [
        Earning(
            worker=key[0],
            backbone=key[1],
            price_table_hash=key[2],
            vouchers=entry[0],
            servings=entry[1],
            rows=entry[2],
            amount_uc=entry[3],
        )
        for key, entry in sorted(sums.items())
    ]


def base_prices(connection: Connection, hashes: set[bytes]) -> Mapping[bytes, int]:
    """Return the base price of a row, in micro-credits, of each price table named.

    Raises:
        DifferenceFound: a table is missing.
        FormatRefused, AmountRefused: a stored table is none.
    """
    head = func.substr(price_table.c.raw, 1, PRICE_HEAD_BYTES, type_=LargeBinary)
    found: dict[bytes, int] = {}
    asked = sorted(hashes)
    for n in range(0, len(asked), _MAX_ASKED):
        statement = select(price_table.c.hash, head.label("head")).where(
            price_table.c.hash.in_(asked[n : n + _MAX_ASKED])
        )
        for row in connection.execute(statement):
            found[row.hash] = read_base_uc(row.head)
    if len(found) != len(hashes):
        raise DifferenceFound(f"{len(hashes) - len(found)} price tables are missing")
    return found


def income(
    connection: Connection, by: IncomeBy, period: Period, worker: bytes | None = None
) -> list[IncomeLine]:
    """Return income, summed: parties by amount, the others in ascending order."""
    of = connection, period, worker
    if by == IncomeBy.BACKBONE:
        return _by_party(earnings(*of), by)
    if by == IncomeBy.WORKER:
        paid = standby_by_worker(*of)
        lines = _with_standby(_by_party(earnings(*of), by), paid)
        return sorted(lines, key=_by_sum)
    if by == IncomeBy.DAY:
        lines = _with_standby(_by_day(*of), standby_by_day(*of))
        return sorted(lines, key=lambda line: line.name)
    is_by_layer = by == IncomeBy.LAYER
    paid = standby_by_expert(*of, is_by_layer=is_by_layer)
    lines = _with_standby(_by_expert(*of, is_by_layer=is_by_layer), paid)
    return sorted(lines, key=lambda line: [int(part) for part in line.name.split("/")])


def _by_sum(line: IncomeLine) -> tuple[int, str]:
    return -line.amount_uc - line.standby_uc, line.name


def _with_standby(lines: list[IncomeLine], paid: Mapping[str, int]) -> list[IncomeLine]:
    """Put standby pay beside what was earned, with a line for each name of both."""
    names = {line.name for line in lines}
    lines = lines + [_line(name, 0, 0, 0) for name in paid if name not in names]
    return [replace(line, standby_uc=paid.get(line.name, 0)) for line in lines]


def _sums(
    servings: ColumnElement[int], rows: ColumnElement[int], amount: ColumnElement[int]
) -> tuple[ColumnElement[int], ...]:
    return (
        func.sum(servings).label("servings"),
        func.sum(rows).label("rows"),
        func.sum(amount).label("amount_uc"),
    )


def _by_party(found: list[Earning], by: IncomeBy) -> list[IncomeLine]:
    sums: dict[bytes, list[int]] = {}
    for each in found:
        party = each.worker if by == IncomeBy.WORKER else each.backbone
        entry = sums.setdefault(party, [0, 0, 0])
        for n, added in enumerate((each.servings, each.rows, each.amount_uc)):
            entry[n] += added
    ordered = sorted(sums.items(), key=lambda item: (-item[1][2], item[0]))
    return [_line(party.hex(), *numbers) for party, numbers in ordered]


def _by_day(
    connection: Connection, period: Period, worker: bytes | None
) -> list[IncomeLine]:
    day = (filing.c.posted_us // _DAY_US).label("day")
    each = select(day, filing.c.leaves, filing.c.rows, filing.c.amount_uc).where(
        filing.c.posted_us >= period.start_us, filing.c.posted_us < period.end_us
    )
    if worker is not None:
        each = each.join(voucher, voucher.c.id == filing.c.voucher_id).where(
            voucher.c.worker == worker
        )
    filed = each.subquery()
    statement = (
        select(filed.c.day, *_sums(filed.c.leaves, filed.c["rows"], filed.c.amount_uc))
        .group_by(filed.c.day)
        .order_by(filed.c.day)
    )
    return [
        _line(format_us(row.day * _DAY_US)[:10], row.servings, row.rows, row.amount_uc)
        for row in connection.execute(statement)
    ]


def _by_expert(
    connection: Connection, period: Period, worker: bytes | None, *, is_by_layer: bool
) -> list[IncomeLine]:
    keys: list[ColumnElement[Any]] = [voucher_expert.c.layer]
    if not is_by_layer:
        keys.append(voucher_expert.c.expert)
    of = voucher_expert.c
    statement = (
        select(*keys, *_sums(of.servings, of["rows"], of.amount_uc))
        .join(closing, closing.c.voucher_id == of.voucher_id)
        .where(
            closing.c.closed_us >= period.start_us, closing.c.closed_us < period.end_us
        )
        .group_by(*keys)
        .order_by(*keys)
    )
    if worker is not None:
        statement = statement.join(
            account, account.c.id == closing.c.worker_account
        ).where(account.c.owner == worker)
    return [
        _line(
            "/".join(map(str, row[: len(keys)])), row.servings, row.rows, row.amount_uc
        )
        for row in connection.execute(statement)
    ]


def _line(name: str, servings: int, rows: int, amount_uc: int) -> IncomeLine:
    return IncomeLine(
        name=name, servings=int(servings), rows=int(rows), amount_uc=int(amount_uc)
    )
