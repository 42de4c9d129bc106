"""The rows that one group of writes leaves behind, and their order of writing.

Contract: rows are collected while a group is decided and written together, many at a
time, in an order that satisfies every foreign key. Nothing is written before `flush`;
a group that fails leaves nothing. Only the writer's thread touches this.
"""

from hashlib import sha256

from sqlalchemy import Connection, bindparam, insert, update

from ledger.claims import Claim, Refusal
from ledger.leaf_files import LeafPlace
from ledger.schema import filing, grant, price_table, rejected, voucher
from ledger.schema_closing import closing, one_sided, policy, voucher_expert
from ledger.voucher import Voucher

__all__ = ["Row", "Rows", "filing_row", "rejected_row", "voucher_row"]

Row = dict[str, object]
_MAX_REJECTED_BYTES = 8192

_CURRENT_VOUCHER = (
    "number",
    "content_hash",
    "leaves",
    "rows",
    "amount_uc",
    "final",
    "raw",
    "worker_signature",
    "backbone_signature",
    "posted_us",
)


class Rows:
    """Collected inserts and updates of everything but accounts and transfers."""

    def __init__(self) -> None:
        """Start with nothing to write."""
        self.clear()

    def clear(self) -> None:
        """Forget everything collected."""
        self.prices: dict[bytes, Row] = {}
        self.new_grants: dict[bytes, Row] = {}
        self.changed_grants: dict[bytes, Row] = {}
        self.new_vouchers: dict[int, Row] = {}
        self.changed_vouchers: dict[int, Row] = {}
        self.filings: dict[bytes, Row] = {}
        self.rejected: dict[object, Row] = {}
        self.policies: list[Row] = []
        self.new_closings: dict[int, Row] = {}
        self.changed_closings: dict[int, Row] = {}
        self.experts: list[Row] = []
        self.new_finals: dict[bytes, Row] = {}
        self.ended_finals: dict[bytes, Row] = {}

    def set_voucher(self, voucher_id: int, row: Row, *, is_new: bool) -> None:
        """Make a row the current voucher of its key."""
        if is_new or voucher_id in self.new_vouchers:
            self.new_vouchers[voucher_id] = {"id": voucher_id, **row}
        else:
            self.changed_vouchers[voucher_id] = row

    def change_closing(self, voucher_id: int, changes: Row) -> None:
        """Change columns of a closing, written or not."""
        if voucher_id in self.new_closings:
            self.new_closings[voucher_id] |= changes
        else:
            self.changed_closings[voucher_id] = {"closing_id": voucher_id} | {
                f"new_{name}": value for name, value in changes.items()
            }

    def end_final(self, content_hash: bytes, state: str) -> None:
        """Drop a one-sided final's leaves and change its state, written or not."""
        if content_hash in self.new_finals:
            self.new_finals[content_hash] |= {"leaves": b"", "state": state}
        else:
            self.ended_finals[content_hash] = {
                "final_hash": content_hash,
                "new_leaves": b"",
                "new_state": state,
            }

    def flush(self, connection: Connection) -> None:
        """Write everything in the open transaction."""
        for table, rows in (
            (price_table, self.prices),
            (grant, self.new_grants),
            (voucher, self.new_vouchers),
            (filing, self.filings),
            (rejected, self.rejected),
            (policy, dict(enumerate(self.policies))),
            (closing, self.new_closings),
            (voucher_expert, dict(enumerate(self.experts))),
            (one_sided, self.new_finals),
        ):
            if rows:
                connection.execute(insert(table), list(rows.values()))
        for statement, changes in (
            (_UPDATE_GRANT, self.changed_grants),
            (_UPDATE_CLOSING, self.changed_closings),
            (_UPDATE_FINAL, self.ended_finals),
        ):
            if changes:
                connection.execute(statement, list(changes.values()))
        if self.changed_vouchers:
            connection.execute(
                _UPDATE_VOUCHER,
                [
                    {"voucher_id": number}
                    | {f"new_{name}": row[name] for name in _CURRENT_VOUCHER}
                    for number, row in self.changed_vouchers.items()
                ],
            )
        self.clear()


def voucher_row(claim: Claim, now_us: int) -> Row:
    """Return the columns of a key's current voucher, but for its id."""
    claimed = claim.voucher
    return {
        "worker": claimed.worker,
        "backbone": claimed.backbone,
        "tab": claimed.tab,
        "price_epoch": claimed.price_epoch,
        "number": claimed.number,
        "content_hash": claim.content_hash,
        "leaves": claimed.leaves,
        "rows": claimed.rows,
        "amount_uc": claimed.amount_uc,
        "final": int(claimed.final),
        "raw": claim.signed.raw,
        "worker_signature": claim.signed.worker_signature,
        "backbone_signature": claim.signed.backbone_signature,
        "posted_us": now_us,
    }


def filing_row(
    claim: Claim, previous: Voucher | None, place: LeafPlace, now_us: int
) -> Row:
    """Return what a voucher adds to the one before, but for its key's id."""
    claimed = claim.voucher
    return {
        "content_hash": claim.content_hash,
        "number": claimed.number,
        "grant_hash": claimed.grant_hash,
        "leaves": claimed.leaves - (previous.leaves if previous else 0),
        "rows": claimed.rows - (previous.rows if previous else 0),
        "amount_uc": claimed.amount_uc - (previous.amount_uc if previous else 0),
        "leaf_file": place.file,
        "leaf_offset": place.offset,
        "issued_us": claimed.issued_us,
        "posted_us": now_us,
        "filed_by": claim.filed_by,
    }


def rejected_row(refusal: Refusal, now_us: int) -> Row:
    """Return a refused voucher as received, cut where it is longer than any sense."""
    signed, claimed = refusal.signed, refusal.voucher
    signatures = signed.worker_signature + signed.backbone_signature
    return {
        "digest": sha256(signed.raw + signatures).digest(),
        "reason": refusal.reason.value,
        "detail": refusal.detail[:500],
        "worker": claimed.worker if claimed else b"",
        "backbone": claimed.backbone if claimed else b"",
        "amount_uc": claimed.amount_uc if claimed else 0,
        "raw": signed.raw[:_MAX_REJECTED_BYTES],
        "worker_signature": signed.worker_signature[:64],
        "backbone_signature": signed.backbone_signature[:64],
        "filed_by": refusal.filed_by,
        "seen_us": now_us,
    }


_UPDATE_GRANT = (
    update(grant)
    .where(grant.c.hash == bindparam("grant_hash"))
    .values(used_uc=bindparam("new_used_uc"), state=bindparam("new_state"))
)
_UPDATE_VOUCHER = (
    update(voucher)
    .where(voucher.c.id == bindparam("voucher_id"))
    .values({name: bindparam(f"new_{name}") for name in _CURRENT_VOUCHER})
)
_UPDATE_CLOSING = (
    update(closing)
    .where(closing.c.voucher_id == bindparam("closing_id"))
    .values(
        {
            name: bindparam(f"new_{name}")
            for name in ("state", "released_us", "holdback", "holdback_us")
        }
    )
)
_UPDATE_FINAL = (
    update(one_sided)
    .where(one_sided.c.content_hash == bindparam("final_hash"))
    .values(leaves=bindparam("new_leaves"), state=bindparam("new_state"))
)
