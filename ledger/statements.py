"""What people ask the books: balances, statements, receipts, the trial balance.

Contract: read-only functions of one open read transaction; every figure is an integer
of micro-credits or a count. A statement shows every voucher of its period in exactly
one state, by the time the ledger stored it (which never goes back, so a period that is
over does not change): pending (stored, countersigned) or rejected with its reason.
Sums over the database stay below 2^63 because no more can move than was ever funded.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select

from ledger.accounts import AccountKind
from ledger.errors import NotFound, RemoteError
from ledger.keys import KEY_BYTES
from ledger.periods import Period
from ledger.schema import account, filing, rejected, transfer, voucher
from ledger.voucher import Voucher, voucher_hash

__all__ = [
    "BackboneLine",
    "BalanceLine",
    "ReceiptLine",
    "RejectedLine",
    "Statement",
    "balances",
    "find_owner",
    "receipts",
    "statement",
    "workers",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class BalanceLine:
    """One account."""

    owner: bytes
    kind: str
    debits_uc: int
    credits_uc: int

    @property
    def balance_uc(self) -> int:
        """Credits less debits."""
        return self.credits_uc - self.debits_uc


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneLine:
    """What one backbone's vouchers added for a worker in a period."""

    backbone: bytes
    vouchers: int
    servings: int
    rows: int
    earned_uc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedLine:
    """Refused vouchers of one reason."""

    reason: str
    vouchers: int
    claimed_uc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A worker's account over a period."""

    worker: bytes
    period: Period
    opening_uc: int
    earned_uc: int
    closing_uc: int
    by_backbone: tuple[BackboneLine, ...]
    rejected: tuple[RejectedLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptLine:
    """One stored or refused voucher."""

    status: str  # stored, rejected
    reason: str
    worker: bytes
    backbone: bytes
    tab: bytes
    price_epoch: int
    number: int
    servings: int  # added by this voucher; all that a refused one claimed
    amount_uc: int  # added by this voucher; what a refused one claimed
    posted_us: int
    voucher_hash: bytes


def balances(
    connection: Connection, *, as_of_us: int | None = None, owner: bytes | None = None
) -> list[BalanceLine]:
    """Return accounts with their sums, now or as of an instant (exclusive)."""
    statement_ = select(account).order_by(account.c.id)
    if owner is not None:
        statement_ = statement_.where(account.c.owner == owner)
    lines: list[BalanceLine] = []
    for row in connection.execute(statement_).all():
        sums = row.debits_uc, row.credits_uc
        if as_of_us is not None:
            sums = _moved(connection, row.id, None, as_of_us)
        lines.append(
            BalanceLine(
                owner=row.owner, kind=row.kind, debits_uc=sums[0], credits_uc=sums[1]
            )
        )
    return lines


def workers(connection: Connection) -> list[bytes]:
    """Return every worker that has an account, in order of first earning."""
    statement_ = (
        select(account.c.owner)
        .where(account.c.kind == AccountKind.WORKER_PENDING.value)
        .order_by(account.c.id)
    )
    return list(connection.execute(statement_).scalars())


def find_owner(connection: Connection, text: str) -> bytes:
    """Return the account owner that a full key or at least 8 of its hex digits name.

    A full key needs no account: what it has is then zero.

    Raises:
        NotFound: no hex, no such owner, or several.
    """
    digits = text.strip().lower()
    try:
        prefix = bytes.fromhex(digits)
    except ValueError as exc:
        raise NotFound(f"{text!r} is no account: not hex") from exc
    if len(prefix) == KEY_BYTES:
        return prefix
    owners: list[bytes] = list(
        connection.execute(select(account.c.owner).distinct()).scalars()
    )
    found = [owner for owner in owners if owner.startswith(prefix)]
    if len(prefix) < 4 or len(found) != 1:
        raise NotFound(f"{text!r} names {len(found)} accounts")
    return found[0]


def statement(connection: Connection, worker: bytes, period: Period) -> Statement:
    """Return a worker's statement: opening, earned, closing, and why."""
    account_id = connection.execute(
        select(account.c.id).where(
            account.c.owner == worker,
            account.c.kind == AccountKind.WORKER_PENDING.value,
        )
    ).scalar_one_or_none()
    before = during = (0, 0)
    if account_id is not None:
        before = _moved(connection, account_id, None, period.start_us)
        during = _moved(connection, account_id, period.start_us, period.end_us)
    opening = before[1] - before[0]
    return Statement(
        worker=worker,
        period=period,
        opening_uc=opening,
        earned_uc=during[1],
        closing_uc=opening + during[1] - during[0],
        by_backbone=_by_backbone(connection, worker, period),
        rejected=_rejected(connection, worker, period),
    )


def receipts(
    connection: Connection, *, worker: bytes | None = None, period: Period | None = None
) -> list[ReceiptLine]:
    """Return stored and refused vouchers in the order of their coming."""
    lines = _stored_lines(connection, worker, period)
    lines += _rejected_lines(connection, worker, period)
    return sorted(lines, key=lambda line: (line.posted_us, line.tab, line.number))


def _moved(
    connection: Connection, account_id: int, start_us: int | None, end_us: int
) -> tuple[int, int]:
    """Return (debits, credits) of an account in [start, end)."""
    totals: list[int] = []
    for side in (transfer.c.debit_id, transfer.c.credit_id):
        conditions = [side == account_id, transfer.c.posted_us < end_us]
        if start_us is not None:
            conditions.append(transfer.c.posted_us >= start_us)
        total: int | None = connection.execute(
            select(func.sum(transfer.c.amount_uc)).where(and_(*conditions))
        ).scalar_one()
        totals.append(total or 0)
    return totals[0], totals[1]


def _by_backbone(
    connection: Connection, worker: bytes, period: Period
) -> tuple[BackboneLine, ...]:
    rows = connection.execute(
        select(
            voucher.c.backbone,
            func.count().label("vouchers"),
            func.sum(filing.c.leaves).label("servings"),
            func.sum(filing.c.rows).label("rows"),
            func.sum(filing.c.amount_uc).label("earned"),
        )
        .join(filing, filing.c.voucher_id == voucher.c.id)
        .where(
            voucher.c.worker == worker,
            filing.c.posted_us >= period.start_us,
            filing.c.posted_us < period.end_us,
        )
        .group_by(voucher.c.backbone)
        .order_by(voucher.c.backbone)
    )
    return tuple(
        BackboneLine(
            backbone=backbone,
            vouchers=vouchers,
            servings=servings,
            rows=n_rows,
            earned_uc=earned,
        )
        for backbone, vouchers, servings, n_rows, earned in rows
    )


def _rejected(
    connection: Connection, worker: bytes, period: Period
) -> tuple[RejectedLine, ...]:
    rows = connection.execute(
        select(rejected.c.reason, rejected.c.amount_uc).where(
            rejected.c.worker == worker,
            rejected.c.seen_us >= period.start_us,
            rejected.c.seen_us < period.end_us,
        )
    )
    claimed: dict[str, list[int]] = {}
    for reason, amount_uc in rows:
        claimed.setdefault(reason, []).append(amount_uc)
    # Summed here: what was claimed in vain may pass what SQL can add.
    return tuple(
        RejectedLine(reason=reason, vouchers=len(amounts), claimed_uc=sum(amounts))
        for reason, amounts in sorted(claimed.items())
    )


def _stored_lines(
    connection: Connection, worker: bytes | None, period: Period | None
) -> list[ReceiptLine]:
    statement_ = select(
        filing.c.content_hash,
        filing.c.number,
        filing.c.leaves,
        filing.c.amount_uc,
        filing.c.posted_us,
        voucher.c.worker,
        voucher.c.backbone,
        voucher.c.tab,
        voucher.c.price_epoch,
    ).join(voucher, filing.c.voucher_id == voucher.c.id)
    if worker is not None:
        statement_ = statement_.where(voucher.c.worker == worker)
    if period is not None:
        statement_ = statement_.where(
            filing.c.posted_us >= period.start_us, filing.c.posted_us < period.end_us
        )
    return [
        ReceiptLine(
            status="stored",
            reason="",
            worker=row.worker,
            backbone=row.backbone,
            tab=row.tab,
            price_epoch=row.price_epoch,
            number=row.number,
            servings=row.leaves,
            amount_uc=row.amount_uc,
            posted_us=row.posted_us,
            voucher_hash=row.content_hash,
        )
        for row in connection.execute(statement_)
    ]


def _rejected_lines(
    connection: Connection, worker: bytes | None, period: Period | None
) -> list[ReceiptLine]:
    statement_ = select(rejected)
    if worker is not None:
        statement_ = statement_.where(rejected.c.worker == worker)
    if period is not None:
        statement_ = statement_.where(
            rejected.c.seen_us >= period.start_us, rejected.c.seen_us < period.end_us
        )
    return [_rejected_line(row) for row in connection.execute(statement_)]


def _rejected_line(row: Row[Any]) -> ReceiptLine:
    try:
        claimed = Voucher.parse(row.raw)
    except RemoteError:  # kept as received: it may be anything
        claimed = None
    return ReceiptLine(
        status="rejected",
        reason=row.reason,
        worker=row.worker,
        backbone=row.backbone,
        tab=claimed.tab if claimed else b"",
        price_epoch=claimed.price_epoch if claimed else 0,
        number=claimed.number if claimed else 0,
        servings=claimed.leaves if claimed else 0,
        amount_uc=row.amount_uc,
        posted_us=row.seen_us,
        voucher_hash=voucher_hash(row.raw),
    )
