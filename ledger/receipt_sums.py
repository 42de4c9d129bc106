"""A worker's receipts of a period, summed: by state, backbone and prices.

Contract: read-only. What was filed is read once, whatever is asked of it: a worker may
have a million receipts in a month. Sums in SQL are of what the worker's accounts took,
which stays below 2^63; what was claimed in vain is summed here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from ledger.periods import Period
from ledger.receipt_states import (
    ReceiptState,
    payment_ranks,
    state_label,
    unfiled_receipts,
    within,
)
from ledger.schema import filing, grant, voucher
from ledger.schema_closing import closing

__all__ = ["FiledSum", "StateLine", "filed_sums", "sums_by_state"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StateLine:
    """The receipts of one state and reason."""

    state: ReceiptState
    why: str
    receipts: int
    servings: int
    amount_uc: int  # what they added; what refused ones claimed

    @property
    def is_earned(self) -> bool:
        """Say whether it came into the worker's accounts, reversed since or not."""
        is_refused = self.state == ReceiptState.REJECTED and self.why != "reversed"
        return not is_refused and self.why != "one-sided"


@dataclass(frozen=True, slots=True, kw_only=True)
class FiledSum:
    """Filed receipts of one state, backbone and price table."""

    state: ReceiptState
    why: str
    backbone: bytes
    price_table_hash: bytes
    receipts: int
    servings: int
    rows: int
    amount_uc: int
    late_receipts: int  # of them, issued before the period
    late_uc: int


def filed_sums(connection: Connection, period: Period, worker: bytes) -> list[FiledSum]:
    """Return what was filed for a worker in a period, in one pass over it."""
    is_late = filing.c.issued_us < period.start_us
    added = {
        "receipts": func.count(),
        "servings": func.sum(filing.c.leaves),
        "added_rows": func.sum(filing.c["rows"]),
        "amount_uc": func.sum(filing.c.amount_uc),
        "late_receipts": func.sum(case((is_late, 1), else_=0)),
        "late_uc": func.sum(case((is_late, filing.c.amount_uc), else_=0)),
    }
    by_voucher = (
        select(
            filing.c.voucher_id,
            filing.c.grant_hash,
            voucher.c.backbone,
            *(column.label(name) for name, column in added.items()),
        )
        .join(voucher, voucher.c.id == filing.c.voucher_id)
        .where(voucher.c.worker == worker, *within(filing.c.posted_us, period))
        .group_by(filing.c.voucher_id, filing.c.grant_hash, voucher.c.backbone)
        .subquery()
    )
    ranks = payment_ranks(worker)
    labelled = (
        select(state_label(ranks).label("label"), by_voucher)
        .outerjoin_from(
            by_voucher, closing, closing.c.voucher_id == by_voucher.c.voucher_id
        )
        .outerjoin(ranks, ranks.c.voucher_id == by_voucher.c.voucher_id)
        .subquery()
    )
    keys = (labelled.c.label, labelled.c.backbone, labelled.c.grant_hash)
    sums = [func.sum(labelled.c[name]) for name in added]
    prices = _price_tables(connection, worker)
    return [
        _filed_sum(
            label, backbone, prices.get(grant_hash, b""), [int(each) for each in row]
        )
        for label, backbone, grant_hash, *row in connection.execute(
            select(*keys, *sums).group_by(*keys)
        )
    ]


def sums_by_state(
    connection: Connection,
    period: Period,
    worker: bytes,
    filed: Iterable[FiledSum] | None = None,
) -> tuple[StateLine, ...]:
    """Return all receipts of a worker in a period, summed by state and reason.

    `filed` is what `filed_sums` returned for the same, if it was asked before.
    """
    if filed is None:
        filed = filed_sums(connection, period, worker)
    sums: dict[tuple[ReceiptState, str], list[int]] = {}
    for each in filed:
        entry = sums.setdefault((each.state, each.why), [0, 0, 0])
        for n, added in enumerate((each.receipts, each.servings, each.amount_uc)):
            entry[n] += added
    for line in unfiled_receipts(connection, period, worker):
        entry = sums.setdefault((line.state, line.why), [0, 0, 0])
        for n, added in enumerate((1, line.servings, line.amount_uc)):
            entry[n] += added
    return tuple(
        StateLine(
            state=state,
            why=why,
            receipts=numbers[0],
            servings=numbers[1],
            amount_uc=numbers[2],
        )
        for (state, why), numbers in sorted(sums.items())
    )


def _price_tables(connection: Connection, worker: bytes) -> dict[bytes, bytes]:
    """Return the price table of each of a worker's grants."""
    statement = select(grant.c.hash, grant.c.price_table_hash).where(
        grant.c.worker == worker
    )
    return {row.hash: row.price_table_hash for row in connection.execute(statement)}


def _filed_sum(
    label: str, backbone: bytes, prices_hash: bytes, sums: list[int]
) -> FiledSum:
    state, _, why = label.partition(":")
    return FiledSum(
        state=ReceiptState(state),
        why=why,
        backbone=backbone,
        price_table_hash=prices_hash,
        receipts=sums[0],
        servings=sums[1],
        rows=sums[2],
        amount_uc=sums[3],
        late_receipts=sums[4],
        late_uc=sums[5],
    )
