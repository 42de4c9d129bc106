"""The price tables that a ledger knows, as rows for people and programs.

Contract: read-only. A table's own row says its epoch, model and base price; the rows of
one epoch say what a row of each expert costs: first the base price, which holds for
every expert not named, then those that have a multiplier. Multipliers are exact: a
decimal string of Q16.16, never a float. Where a STANDBY paper was booked for a table,
the newest one says how scarce each expert was: rows paid for, target, coverage.
"""

from typing import Any

from sqlalchemy import Connection, LargeBinary, Row, func, select

from ledger.amounts import format_credits
from ledger.errors import NotFound
from ledger.periods import format_us
from ledger.prices import ONE_Q16, PRICE_HEAD_BYTES, PriceTable, read_base_uc
from ledger.schema import price_table
from ledger.schema_standby import price_epoch, price_row

__all__ = ["format_q16", "price_rows", "price_tables"]


def format_q16(multiplier: int) -> str:
    """Write a Q16.16 multiplier as an exact decimal string."""
    whole, part = divmod(multiplier, ONE_Q16)
    digits = f"{part * 10**16 // ONE_Q16:016d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def price_tables(connection: Connection) -> list[dict[str, object]]:
    """Return a row for each table, by epoch.

    Raises:
        FormatRefused, AmountRefused: a stored table is none.
    """
    head = func.substr(price_table.c.raw, 1, PRICE_HEAD_BYTES, type_=LargeBinary)
    statement = select(
        price_table.c.epoch,
        price_table.c.manifest_hash,
        price_table.c.hash,
        price_table.c.seen_us,
        head.label("head"),
    ).order_by(price_table.c.epoch, price_table.c.seen_us, price_table.c.hash)
    return [
        {
            "epoch": row.epoch,
            "model": row.manifest_hash.hex(),
            "base_uc": read_base_uc(row.head),
            "base": format_credits(read_base_uc(row.head)),
            "seen": format_us(row.seen_us),
            "prices": row.hash.hex(),
        }
        for row in connection.execute(statement)
    ]


def price_rows(connection: Connection, epoch: int) -> list[dict[str, object]]:
    """Return what a row of each expert costs in an epoch, for each of its tables.

    Raises:
        NotFound: no table of that epoch.
        FormatRefused, AmountRefused: a stored table is none.
    """
    if not 0 <= epoch < 1 << 32:
        raise NotFound(f"no price epoch {epoch}")
    statement = (
        select(price_table)
        .where(price_table.c.epoch == epoch)
        .order_by(price_table.c.seen_us, price_table.c.hash)
    )
    rows: list[dict[str, object]] = []
    for stored in connection.execute(statement):
        table = PriceTable.parse(stored.raw)
        scarcity = _scarcity(connection, stored.hash)
        rows.append(_row(table, "all others", ONE_Q16, table.base_uc) | _shown(None))
        for packed, multiplier in table.multipliers.items():
            layer, expert = packed >> 16, packed & 0xFFFF
            name = f"{layer}/{expert}"
            row = _row(table, name, multiplier, table.unit_price(layer, expert))
            rows.append(row | _shown(scarcity.get((layer, expert))))
    if not rows:
        raise NotFound(f"no prices of epoch {epoch}: see p2pmoe ledger prices")
    return rows


def _scarcity(
    connection: Connection, table_hash: bytes
) -> dict[tuple[int, int], Row[Any]]:
    """Return how scarce experts were in the last booked epoch of a table."""
    newest = (
        select(func.max(price_epoch.c.paper))
        .where(price_epoch.c.price_table_hash == table_hash)
        .scalar_subquery()
    )
    statement = select(price_row).where(price_row.c.paper == newest)
    return {(row.layer, row.expert): row for row in connection.execute(statement)}


def _shown(scarcity: Row[Any] | None) -> dict[str, object]:
    if scarcity is None:
        return {"demand": "", "target": "", "coverage": ""}
    return {
        "demand": scarcity.demand,
        "target": format_q16(scarcity.target),
        "coverage": format_q16(scarcity.coverage),
    }


def _row(
    table: PriceTable, expert: str, multiplier: int, price_uc: int
) -> dict[str, object]:
    return {
        "expert": expert,
        "multiplier": format_q16(multiplier),
        "price_uc": price_uc,
        "price": format_credits(price_uc),
        "model": table.manifest_hash.hex(),
    }
