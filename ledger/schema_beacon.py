"""The ledger's tables of beacons and of the servings that they chose.

Contract: as `ledger.schema`. A beacon covers the filings posted in [from_us, upto_us);
the borders of consecutive ones meet. An audit has one outcome, ever:

    open -> passed     somebody else computed the same results
         -> failed     two others computed the same, other results: the worker is
                       convicted, and the rows are kept here for whoever doubts it
         -> unopened   the backbone did not show the rows: on its record
         -> unjudged   nobody could say: on nobody's record
         -> unasked    it was too late to ask the backbone: on nobody's record

This module creates nothing by itself.
"""

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    UniqueConstraint,
)

from ledger.database_triggers import append_only
from ledger.schema import METADATA, Id, Line

__all__ = ["BEACON_TABLES", "audit", "beacon"]

# Signed draws; see `ledger.beacon`. The first of a ledger covers nothing.
beacon = Table(
    "beacon",
    METADATA,
    Column("number", Id, primary_key=True, autoincrement=False),
    Column("previous", LargeBinary, nullable=False),  # [32]
    Column("log_size", BigInteger, nullable=False),
    Column("log_root", LargeBinary, nullable=False),  # [32]
    Column("signature", LargeBinary, nullable=False),  # [64]
    Column("from_us", BigInteger, nullable=False),
    Column("upto_us", BigInteger, nullable=False),
    CheckConstraint("from_us <= upto_us"),
)

# One chosen serving of a filed voucher, and what looking at it again came to.
audit = Table(
    "audit",
    METADATA,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("beacon", ForeignKey("beacon.number"), nullable=False),
    Column("content_hash", ForeignKey("filing.content_hash"), nullable=False),
    Column("voucher_id", ForeignKey("voucher.id"), nullable=False),
    Column("place", BigInteger, nullable=False),  # among the filing's leaves, from 0
    Column("leaf", LargeBinary, nullable=False),  # [79]
    Column("worker", LargeBinary, nullable=False),
    Column("backbone", LargeBinary, nullable=False),
    Column("posted_us", BigInteger, nullable=False),
    Column("state", Line, nullable=False),
    Column("words", LargeBinary, nullable=False),  # referee 32 | out_hash 16, in order
    Column("opened", LargeBinary),  # the rows, of a failed one
    Column("is_reversed", Integer, nullable=False),  # it took the voucher back
    Column("detail", Line, nullable=False),
    Column("decided_us", BigInteger),
    UniqueConstraint("content_hash", "place"),
    CheckConstraint(
        "state in ('open', 'passed', 'failed', 'unopened', 'unjudged', 'unasked')"
    ),
    CheckConstraint("is_reversed in (0, 1)"),
    Index("audit_by_state", "state", "id"),
    Index("audit_by_worker", "worker", "state", "decided_us"),
    Index("audit_by_backbone", "backbone", "state", "id"),
    Index("audit_by_voucher", "voucher_id"),
    Index("audit_by_time", "decided_us"),
)

BEACON_TABLES = (beacon, audit)

append_only(beacon)
