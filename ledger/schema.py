"""The ledger's first tables: what is filed and what it moves.

Contract: portable SQL (SQLite and PostgreSQL alike): BIGINT micro-credits and
microseconds, bytes for keys and hashes; never a float. `transfer` and `filing` are
append-only, held by triggers. One current voucher exists for each (worker, backbone,
tab, price epoch). What a table means is said at the table. What comes after a voucher's
close has its tables in `ledger.schema_closing`. This module creates nothing by itself.
"""

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)
from sqlalchemy.types import TypeEngine

from ledger.database_triggers import append_only

__all__ = [
    "METADATA",
    "SCHEMA_VERSION",
    "Id",
    "Line",
    "account",
    "filing",
    "grant",
    "identity",
    "leaf_file",
    "price_table",
    "rejected",
    "schema_version",
    "transfer",
    "voucher",
]

SCHEMA_VERSION = 4
METADATA = MetaData()
Id = BigInteger().with_variant(Integer, "sqlite")  # so that it is SQLite's row id


class Line(TypeDecorator[str]):
    """Text that every database takes: U+FFFD for NUL and for what is no character."""

    impl: TypeEngine[Any] | type[TypeEngine[Any]] = Text
    cache_ok: bool | None = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Return what is stored."""
        if value is None or value.isprintable():
            return value
        whole = value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
        return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")


# One row: how far the migrations have come.
schema_version = Table(
    "schema_version", METADATA, Column("version", Integer, nullable=False)
)

# One row: whose ledger this is. A folder never serves another network or key.
identity = Table(
    "identity",
    METADATA,
    Column("network", LargeBinary, nullable=False),
    Column("ledger", LargeBinary, nullable=False),
    Column("market", LargeBinary, nullable=False),
)

# Balance = credits - debits; only `external` may be negative.
account = Table(
    "account",
    METADATA,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("owner", LargeBinary, nullable=False),
    Column("kind", Line, nullable=False),
    Column("opened_us", BigInteger, nullable=False),
    Column("debits_uc", BigInteger, nullable=False),
    Column("credits_uc", BigInteger, nullable=False),
    UniqueConstraint("owner", "kind"),
    CheckConstraint("debits_uc >= 0 and credits_uc >= 0"),
    CheckConstraint("kind = 'external' or credits_uc >= debits_uc"),
)

# One debit, one credit. `id` is derived from the business key (ledger.accounts).
transfer = Table(
    "transfer",
    METADATA,
    Column("seq", Id, primary_key=True, autoincrement=False),
    Column("id", LargeBinary, nullable=False, unique=True),
    Column("debit_id", Id, ForeignKey("account.id"), nullable=False),
    Column("credit_id", Id, ForeignKey("account.id"), nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
    Column("code", Line, nullable=False),
    Column("reference", LargeBinary, nullable=False),
    Column("posted_us", BigInteger, nullable=False),
    CheckConstraint("amount_uc > 0"),
    CheckConstraint("debit_id <> credit_id"),
    Index("transfer_by_debit", "debit_id", "posted_us"),
    Index("transfer_by_credit", "credit_id", "posted_us"),
)

# Price tables signed by the market, named by their hash.
price_table = Table(
    "price_table",
    METADATA,
    Column("hash", LargeBinary, primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("manifest_hash", LargeBinary, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("seen_us", BigInteger, nullable=False),
)

# Grants that this ledger signed; open until what is left of them is released.
grant = Table(
    "granted",
    METADATA,
    Column("hash", LargeBinary, primary_key=True),
    Column("worker", LargeBinary, nullable=False),
    Column("backbone", LargeBinary, nullable=False),
    Column("serial", LargeBinary, nullable=False),
    Column("price_table_hash", ForeignKey("price_table.hash"), nullable=False),
    Column("ceiling_uc", BigInteger, nullable=False),
    Column("used_uc", BigInteger, nullable=False),
    Column("expiry_us", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("state", Line, nullable=False),
    Column("posted_us", BigInteger, nullable=False),
    UniqueConstraint("backbone", "serial"),
    CheckConstraint("state in ('open', 'released')"),
    CheckConstraint("0 <= used_uc and used_uc <= ceiling_uc"),
    Index("granted_by_state", "state", "expiry_us"),
    Index("granted_by_pair", "worker", "backbone"),
)

# The current voucher of each key: moves forward only.
voucher = Table(
    "voucher",
    METADATA,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("worker", LargeBinary, nullable=False),
    Column("backbone", LargeBinary, nullable=False),
    Column("tab", LargeBinary, nullable=False),
    Column("price_epoch", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("content_hash", LargeBinary, nullable=False, unique=True),
    Column("leaves", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
    Column("final", Integer, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("worker_signature", LargeBinary, nullable=False),
    Column("backbone_signature", LargeBinary, nullable=False),
    Column("posted_us", BigInteger, nullable=False),
    UniqueConstraint("worker", "backbone", "tab", "price_epoch"),
    Index("voucher_by_tab", "tab"),
    Index("voucher_by_backbone", "backbone"),
)

# Every voucher that was stored: what it added, and where its new leaves lie.
filing = Table(
    "filing",
    METADATA,
    Column("content_hash", LargeBinary, primary_key=True),
    Column("voucher_id", Id, ForeignKey("voucher.id"), nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("grant_hash", ForeignKey("granted.hash"), nullable=False),
    Column("leaves", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
    Column("leaf_file", BigInteger, nullable=False),
    Column("leaf_offset", BigInteger, nullable=False),
    Column("issued_us", BigInteger, nullable=False),
    Column("posted_us", BigInteger, nullable=False),
    Column("filed_by", LargeBinary, nullable=False),
    UniqueConstraint("voucher_id", "number"),
    CheckConstraint("leaves >= 0 and rows >= 0 and amount_uc >= 0"),
    Index("filing_by_time", "posted_us"),
)

# Vouchers that were refused, as received, with the reason.
rejected = Table(
    "rejected",
    METADATA,
    Column("digest", LargeBinary, primary_key=True),
    Column("reason", Line, nullable=False),
    Column("detail", Line, nullable=False),
    Column("worker", LargeBinary, nullable=False),
    Column("backbone", LargeBinary, nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("worker_signature", LargeBinary, nullable=False),
    Column("backbone_signature", LargeBinary, nullable=False),
    Column("filed_by", LargeBinary, nullable=False),
    Column("seen_us", BigInteger, nullable=False),
    Index("rejected_by_worker", "worker", "seen_us"),
    Index("rejected_by_filer", "filed_by"),
)

# How much of each leaf file is committed; what lies beyond is cut off at opening.
leaf_file = Table(
    "leaf_file",
    METADATA,
    Column("number", Id, primary_key=True, autoincrement=False),
    Column("length_bytes", BigInteger, nullable=False),
)

append_only(transfer)
append_only(filing)
