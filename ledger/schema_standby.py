"""The ledger's tables of standby pay: signed papers, what they say, who got what.

Contract: as `ledger.schema`. A paper (`ledger.standby`) is booked once for each model
and epoch, whole or not at all; its scarcity and holdings are also kept as rows, to be
asked about; both must agree. All of it is append-only. This module creates nothing by
itself.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
)

from ledger.database_triggers import append_only
from ledger.schema import METADATA, Id, Line

__all__ = [
    "STANDBY_TABLES",
    "holding",
    "payout_standby",
    "price_epoch",
    "price_row",
    "standby_paper",
    "standby_pay",
]

# Signed by the market, named by hash, as received.
standby_paper = Table(
    "standby_paper",
    METADATA,
    Column("seq", Id, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("raw", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("policy_hash", ForeignKey("policy.hash"), nullable=False),
    Column("booked_us", BigInteger, nullable=False),
)

# One row for each booked paper: which model, when, at which prices, how much of H.
price_epoch = Table(
    "price_epoch",
    METADATA,
    Column("paper", ForeignKey("standby_paper.seq"), primary_key=True),
    Column("manifest_hash", LargeBinary, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("from_us", BigInteger, nullable=False),
    Column("to_us", BigInteger, nullable=False),
    Column("price_table_hash", LargeBinary, nullable=False),
    Column("pot_uc", BigInteger, nullable=False),  # H
    Column("paid_uc", BigInteger, nullable=False),
    UniqueConstraint("manifest_hash", "epoch"),
    CheckConstraint("0 <= paid_uc and paid_uc <= pot_uc"),
    CheckConstraint("from_us < to_us"),
    Index("price_epoch_by_epoch", "epoch"),
)

# How scarce an expert was in an epoch; multiplier, target, coverage are Q16.16.
price_row = Table(
    "price_row",
    METADATA,
    Column("paper", ForeignKey("standby_paper.seq"), primary_key=True),
    Column("layer", Integer, primary_key=True),
    Column("expert", Integer, primary_key=True),
    Column("demand", BigInteger, nullable=False),
    Column("multiplier", BigInteger, nullable=False),
    Column("target", BigInteger, nullable=False),
    Column("coverage", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)

# A replica that was held through an epoch, and what it is worth.
holding = Table(
    "holding",
    METADATA,
    Column("paper", ForeignKey("standby_paper.seq"), primary_key=True),
    Column("worker", LargeBinary, primary_key=True),
    Column("layer", Integer, primary_key=True),
    Column("expert", Integer, primary_key=True),
    Column("domain", LargeBinary, nullable=False),
    Column("share", BigInteger, nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
    sqlite_with_rowid=False,  # half the bytes: these rows are many
)

# What a worker gets of a paper, in one transfer; or why it does not.
standby_pay = Table(
    "standby_pay",
    METADATA,
    Column("paper", ForeignKey("standby_paper.seq"), primary_key=True),
    Column("worker", LargeBinary, primary_key=True),
    Column("replicas", BigInteger, nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
    Column("state", Line, nullable=False),
    CheckConstraint("state in ('paid', 'unknown')"),
    CheckConstraint("amount_uc > 0"),
    Index("standby_pay_by_worker", "worker", "paper"),
    sqlite_with_rowid=False,
)

# Which standby pay a payout pays; it is in one living payout at most.
payout_standby = Table(
    "payout_standby",
    METADATA,
    Column("payout_id", ForeignKey("payout.id"), primary_key=True),
    Column("paper", ForeignKey("standby_paper.seq"), primary_key=True),
    Column("worker", LargeBinary, nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
    ForeignKeyConstraint(
        ["paper", "worker"], ["standby_pay.paper", "standby_pay.worker"]
    ),
    Index("payout_standby_by_pay", "paper", "worker"),
)

STANDBY_TABLES = (
    standby_paper,
    price_epoch,
    price_row,
    holding,
    standby_pay,
    payout_standby,
)

for _table in STANDBY_TABLES:
    append_only(_table)
