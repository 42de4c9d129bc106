"""The ledger's tables from a voucher's close to money outside.

Contract: as `ledger.schema`. A voucher's key is closed once: its `closing` row has what
became of its amount (fee, held back, the rest) under which signed `policy`, and carries
its place in the log. Releases, disputes, payouts only move such a row's state forward;
what moved is always in `transfer`, so every state can be derived again. Raw bytes of
signed documents are stored as received. This module creates nothing by itself.
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

__all__ = [
    "CLOSING_TABLES",
    "checkpoint",
    "closing",
    "cosignature",
    "dispute",
    "equivocation",
    "leaf_file_state",
    "one_sided",
    "payout",
    "payout_event",
    "payout_item",
    "period",
    "policy",
    "voucher_expert",
]

# The operator's terms (fee, holdback, windows), signed by the ledger, named by hash;
# the newest by `seq` holds for what closes from then on.
policy = Table(
    "policy",
    METADATA,
    Column("seq", Id, primary_key=True, autoincrement=False),
    Column("hash", LargeBinary, nullable=False, unique=True),
    Column("raw", LargeBinary, nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("posted_us", BigInteger, nullable=False),
)

# One row for each closed voucher: amount = fee + held + net. `content_hash` is that of
# the voucher that closed the key; no later one of the key is taken.
closing = Table(
    "closing",
    METADATA,
    Column("voucher_id", ForeignKey("voucher.id"), primary_key=True),
    Column("content_hash", LargeBinary, nullable=False, unique=True),
    Column("log_index", BigInteger, nullable=False, unique=True),
    Column("entry_hash", LargeBinary, nullable=False),  # RFC 6962 leaf hash [32]
    Column("policy_hash", ForeignKey("policy.hash"), nullable=False),
    Column("worker_account", ForeignKey("account.id"), nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
    Column("fee_uc", BigInteger, nullable=False),
    Column("held_uc", BigInteger, nullable=False),
    Column("net_uc", BigInteger, nullable=False),
    Column("closed_us", BigInteger, nullable=False),
    Column("release_due_us", BigInteger, nullable=False),
    # closed -> released | disputed -> closed | reversed
    Column("state", Line, nullable=False),
    Column("released_us", BigInteger),
    # none | held -> released | forfeited
    Column("holdback", Line, nullable=False),
    Column("holdback_due_us", BigInteger, nullable=False),
    Column("holdback_us", BigInteger),
    CheckConstraint("state in ('closed', 'disputed', 'released', 'reversed')"),
    CheckConstraint("holdback in ('none', 'held', 'released', 'forfeited')"),
    CheckConstraint("fee_uc >= 0 and held_uc >= 0 and net_uc >= 0"),
    CheckConstraint("amount_uc = fee_uc + held_uc + net_uc"),
    Index("closing_by_state", "state", "release_due_us"),
    Index("closing_by_holdback", "holdback", "holdback_due_us"),
    Index("closing_by_worker", "worker_account", "closed_us"),
)

# What a closed voucher's leaves add up to, by expert; outlives the leaves.
voucher_expert = Table(
    "voucher_expert",
    METADATA,
    Column("voucher_id", ForeignKey("voucher.id"), primary_key=True),
    Column("layer", Integer, primary_key=True),
    Column("expert", Integer, primary_key=True),
    Column("servings", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
)

# Final vouchers signed by the backbone alone: held until the worker countersigns.
one_sided = Table(
    "one_sided",
    METADATA,
    Column("content_hash", LargeBinary, primary_key=True),
    Column("worker", LargeBinary, nullable=False),
    Column("backbone", LargeBinary, nullable=False),
    Column("tab", LargeBinary, nullable=False),
    Column("price_epoch", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("amount_uc", BigInteger, nullable=False),
    Column("raw", LargeBinary, nullable=False),
    Column("backbone_signature", LargeBinary, nullable=False),
    Column("leaves", LargeBinary, nullable=False),
    Column("filed_by", LargeBinary, nullable=False),
    Column("seen_us", BigInteger, nullable=False),
    Column("state", Line, nullable=False),  # held -> signed | expired
    CheckConstraint("state in ('held', 'signed', 'expired')"),
    UniqueConstraint("worker", "backbone", "tab", "price_epoch"),
    Index("one_sided_by_worker", "worker", "seen_us"),
)

# Proof that one signer signed two different vouchers of one key and number.
equivocation = Table(
    "equivocation",
    METADATA,
    Column("digest", LargeBinary, primary_key=True),
    Column("signer", LargeBinary, nullable=False),
    Column("worker", LargeBinary, nullable=False),
    Column("backbone", LargeBinary, nullable=False),
    Column("tab", LargeBinary, nullable=False),
    Column("price_epoch", BigInteger, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("first_raw", LargeBinary, nullable=False),
    Column("first_signature", LargeBinary, nullable=False),
    Column("second_raw", LargeBinary, nullable=False),
    Column("second_signature", LargeBinary, nullable=False),
    Column("seen_us", BigInteger, nullable=False),
    Index("equivocation_by_signer", "signer"),
)

# A question about one leaf of a closed voucher, until it is decided.
dispute = Table(
    "dispute",
    METADATA,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("voucher_id", ForeignKey("closing.voucher_id"), nullable=False),
    Column("serving", BigInteger, nullable=False),
    Column("opener", LargeBinary, nullable=False),
    Column("respondent", LargeBinary, nullable=False),
    Column("reason", Line, nullable=False),
    Column("claim", LargeBinary, nullable=False),  # signed by the opener
    Column("claim_signature", LargeBinary, nullable=False),
    Column("opened_us", BigInteger, nullable=False),
    Column("answer_due_us", BigInteger, nullable=False),
    Column("answer", LargeBinary),  # signed by the respondent
    Column("answer_signature", LargeBinary),
    Column("answered_us", BigInteger),
    Column("verdict", Line, nullable=False),  # why, in one sentence
    Column("decided_us", BigInteger),
    Column("state", Line, nullable=False),
    CheckConstraint("state in ('open', 'answered', 'upheld', 'dismissed')"),
    UniqueConstraint("voucher_id", "serving", "opener"),
    Index("dispute_by_state", "state", "answer_due_us"),
)

# A closed span of time: nothing is posted into it any more.
period = Table(
    "period",
    METADATA,
    Column("id", Id, primary_key=True, autoincrement=False),
    Column("name", Line, nullable=False, unique=True),  # 2026-11
    Column("start_us", BigInteger, nullable=False, unique=True),
    Column("end_us", BigInteger, nullable=False, unique=True),
    Column("closed_us", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),  # of the transfers up to its end
    Column("log_size", BigInteger, nullable=False),
    Column("log_root", LargeBinary, nullable=False),
    Column("statement_root", LargeBinary, nullable=False),  # over all its statements
    Column("late", Line, nullable=False),  # note on what came after the end
)

# One payment to one worker. Written, and its money moved to clearing, before anything
# leaves the house; `idempotency_key` goes along with it.
payout = Table(
    "payout",
    METADATA,
    Column("id", LargeBinary, primary_key=True),  # [16]
    Column("period_id", ForeignKey("period.id"), nullable=False),
    Column("account_id", ForeignKey("account.id"), nullable=False),
    Column("attempt", Integer, nullable=False),  # a new one only after failed, void
    Column("idempotency_key", Line, nullable=False, unique=True),
    Column("adapter", Line, nullable=False),
    Column("destination", Line, nullable=False),  # the payee's name in the payee file
    Column("amount_uc", BigInteger, nullable=False),
    Column("currency", Line, nullable=False),
    Column("amount_minor", BigInteger, nullable=False),  # cents and the like
    Column("rate", Line, nullable=False),  # micro-credits for one minor unit, n/d
    Column("state", Line, nullable=False),
    Column("prepared_us", BigInteger, nullable=False),
    Column("changed_us", BigInteger, nullable=False),
    Column("external_ref", Line, unique=True),
    Column("detail", Line, nullable=False),
    UniqueConstraint("period_id", "account_id", "attempt"),
    CheckConstraint("amount_uc > 0 and amount_minor > 0"),
    CheckConstraint(
        "state in ('prepared', 'sending', 'sent', 'confirmed', 'failed', "
        "'unresolved', 'void')"
    ),
    Index("payout_by_state", "state"),
)

# Every step of a payout, in order.
payout_event = Table(
    "payout_event",
    METADATA,
    Column("seq", Id, primary_key=True, autoincrement=False),
    Column("payout_id", ForeignKey("payout.id"), nullable=False),
    Column("state", Line, nullable=False),
    Column("detail", Line, nullable=False),
    Column("posted_us", BigInteger, nullable=False),
)

# Which released vouchers a payout pays; a voucher is in one living payout at most.
payout_item = Table(
    "payout_item",
    METADATA,
    Column("payout_id", ForeignKey("payout.id"), primary_key=True),
    Column("voucher_id", ForeignKey("closing.voucher_id"), primary_key=True),
    Column("part", Line, primary_key=True),  # net | holdback
    Column("amount_uc", BigInteger, nullable=False),
    CheckConstraint("part in ('net', 'holdback')"),
    Index("payout_item_by_voucher", "voucher_id"),
)

# Signed heads of the log, and what witnesses said about them.
checkpoint = Table(
    "checkpoint",
    METADATA,
    Column("size", Id, primary_key=True, autoincrement=False),
    Column("root", LargeBinary, nullable=False),
    Column("note", LargeBinary, nullable=False),  # the signed note's bytes
    Column("posted_us", BigInteger, nullable=False),
)
cosignature = Table(
    "cosignature",
    METADATA,
    Column("size", ForeignKey("checkpoint.size"), primary_key=True),
    Column("witness", LargeBinary, primary_key=True),  # [32]
    Column("line", Line, nullable=False),  # the note's signature line
    Column("posted_us", BigInteger, nullable=False),
)

# Leaf files that are no longer plain: packed (compressed), or pruned by the policy.
leaf_file_state = Table(
    "leaf_file_state",
    METADATA,
    Column("number", ForeignKey("leaf_file.number"), primary_key=True),
    Column("state", Line, nullable=False),
    Column("digest", LargeBinary, nullable=False),  # SHA-256 of the plain bytes
    Column("changed_us", BigInteger, nullable=False),
    CheckConstraint("state in ('packed', 'pruned')"),
)

CLOSING_TABLES = (
    policy,
    closing,
    voucher_expert,
    one_sided,
    equivocation,
    dispute,
    period,
    payout,
    payout_event,
    payout_item,
    checkpoint,
    cosignature,
    leaf_file_state,
)

for _table in (policy, voucher_expert, equivocation, payout_event, period, checkpoint):
    append_only(_table)
