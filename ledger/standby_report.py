"""Standby pay as the operator and a worker ask about it: the pot, and the papers.

Contract: read-only. A row has stable names, amounts in micro-credits and as decimals,
instants in UTC. Papers are in the order of their booking.
"""

from sqlalchemy import Connection, func, select

from ledger.amounts import format_credits
from ledger.periods import Period, format_us
from ledger.schema_standby import holding, price_epoch, standby_paper, standby_pay

__all__ = ["PAPER_COLUMNS", "PAY_COLUMNS", "paper_rows", "pay_rows"]

PAPER_COLUMNS = (
    "epoch",
    "model",
    "booked",
    "replicas",
    "pot_uc",
    "paid_uc",
    "paid",
    "unknown_uc",
    "paper",
)
PAY_COLUMNS = ("epoch", "model", "booked", "replicas", "amount_uc", "amount", "state")


def paper_rows(connection: Connection, period: Period) -> list[dict[str, object]]:
    """Return the papers booked in a period: what each gives at most, and gave."""
    seq = price_epoch.c.paper
    replicas = select(func.count()).where(holding.c.paper == seq).scalar_subquery()
    unknown = (
        select(func.coalesce(func.sum(standby_pay.c.amount_uc), 0))
        .where(standby_pay.c.paper == seq, standby_pay.c.state == "unknown")
        .scalar_subquery()
    )
    statement = (
        select(
            price_epoch,
            standby_paper.c.hash,
            standby_paper.c.booked_us,
            replicas.label("replicas"),
            unknown.label("unknown_uc"),
        )
        .join(standby_paper, standby_paper.c.seq == seq)
        .where(
            standby_paper.c.booked_us >= period.start_us,
            standby_paper.c.booked_us < period.end_us,
        )
        .order_by(seq)
    )
    return [
        {
            "epoch": row.epoch,
            "model": row.manifest_hash.hex(),
            "booked": format_us(row.booked_us),
            "replicas": row.replicas,
            "pot_uc": row.pot_uc,
            "paid_uc": row.paid_uc,
            "paid": format_credits(row.paid_uc),
            "unknown_uc": int(row.unknown_uc),  # a Decimal from PostgreSQL
            "paper": row.hash.hex(),
            "start": format_us(row.from_us),
            "end": format_us(row.to_us),
            "prices": row.price_table_hash.hex(),
        }
        for row in connection.execute(statement)
    ]


def pay_rows(
    connection: Connection, worker: bytes, period: Period
) -> list[dict[str, object]]:
    """Return what a worker got, or would have got, of the papers of a period."""
    statement = (
        select(standby_pay, price_epoch, standby_paper.c.booked_us)
        .join(standby_paper, standby_paper.c.seq == standby_pay.c.paper)
        .join(price_epoch, price_epoch.c.paper == standby_pay.c.paper)
        .where(
            standby_pay.c.worker == worker,
            standby_paper.c.booked_us >= period.start_us,
            standby_paper.c.booked_us < period.end_us,
        )
        .order_by(standby_pay.c.paper)
    )
    return [
        {
            "epoch": row.epoch,
            "model": row.manifest_hash.hex(),
            "booked": format_us(row.booked_us),
            "replicas": row.replicas,
            "amount_uc": row.amount_uc,
            "amount": format_credits(row.amount_uc),
            "state": row.state,
        }
        for row in connection.execute(statement)
    ]
