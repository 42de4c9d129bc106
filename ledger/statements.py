"""A worker's statement: what it was owed, earned, was paid, and is owed.

Contract: read-only functions of one open read transaction; every figure is an integer
of micro-credits or a count. What a period has (accounts, movements, receipts) follows
from when the ledger stored it; its time never goes back, so a period that is over does
not change, and two adjacent periods add up to both. The state of each receipt is that
of now. A statement whose receipts do not add up to what its accounts earned is never
given out.
"""

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from ledger.accounts import TransferCode
from ledger.balances import balances, find_owner, workers
from ledger.errors import DifferenceFound
from ledger.flows import Flows, worker_flows
from ledger.income import base_prices
from ledger.keys import short
from ledger.payout_standby import standby_parts
from ledger.periods import Period
from ledger.receipt_states import ReceiptLine, ReceiptState, receipts
from ledger.receipt_sums import FiledSum, StateLine, filed_sums, sums_by_state
from ledger.schema import account, price_table
from ledger.schema_closing import checkpoint, closing, payout, payout_item
from ledger.schema_closing import period as period_table
from ledger.standby_sums import StandbyLine, standby_lines
from ledger.statement_root import pack_statement, statement_hash

__all__ = [
    "BackboneLine",
    "CheckpointLine",
    "ClosedPeriod",
    "EpochLine",
    "PayoutLine",
    "ReceiptLine",
    "ReceiptState",
    "StandbyLine",
    "StateLine",
    "Statement",
    "balances",
    "find_owner",
    "receipts",
    "statement",
    "workers",
]

_MAX_ASKED = 500  # hashes in one query


@dataclass(frozen=True, slots=True, kw_only=True)
class BackboneLine:
    """What one backbone's vouchers added for a worker in a period."""

    backbone: bytes
    vouchers: int
    servings: int
    rows: int
    earned_uc: int
    base_uc: int  # of it, at the base price; the rest is the scarcity part


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochLine:
    """What was earned in a period at the prices of one table."""

    epoch: int
    price_table_hash: bytes
    manifest_hash: bytes
    row_uc: int  # the base price of a row
    receipts: int
    servings: int
    rows: int
    earned_uc: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PayoutLine:
    """A payout that was prepared in a period, in its state of now."""

    id: bytes
    state: str
    amount_uc: int
    rounding_uc: int  # of the parts it pays, what is less than a minor unit
    currency: str
    amount_minor: int
    prepared_us: int
    external_ref: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointLine:
    """The first signed head of the log that has all that is closed."""

    size: int
    root: bytes
    posted_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedPeriod:
    """What the ledger keeps of a period that it closed."""

    name: str
    closed_us: int
    statement_root: bytes
    late: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A worker's accounts over a period, and what is behind them."""

    worker: bytes
    period: Period
    flows: Flows
    by_backbone: tuple[BackboneLine, ...]
    by_epoch: tuple[EpochLine, ...]  # of prices, in order
    standby: tuple[StandbyLine, ...]  # for replicas held, by model
    states: tuple[StateLine, ...]
    payouts: tuple[PayoutLine, ...]
    late_receipts: int  # issued before the period, filed in it
    late_uc: int
    checkpoint: CheckpointLine | None  # None: not yet in the log, or nothing is closed
    closed_period: ClosedPeriod | None  # None: not closed, or not these borders

    @property
    def opening_uc(self) -> int:
        """What the worker was owed at the beginning."""
        return self.flows.opening.total_uc

    @property
    def closing_uc(self) -> int:
        """What the worker was owed at the end."""
        return self.flows.closing.total_uc

    @property
    def earned_uc(self) -> int:
        """What filed vouchers added, before fees."""
        return self.moved_uc(TransferCode.EARN)

    @property
    def standby_uc(self) -> int:
        """What the replicas that were held got, called or not."""
        return self.moved_uc(TransferCode.STANDBY)

    @property
    def base_uc(self) -> int:
        """The part of what was earned that is at the base price of a row."""
        return sum(line.base_uc for line in self.by_backbone)

    @property
    def scarcity_uc(self) -> int:
        """The part above the base price; below zero where experts were plentiful."""
        return self.earned_uc - self.base_uc

    @property
    def content_hash(self) -> bytes:
        """The 32-byte leaf hash of the statement's canonical bytes."""
        return statement_hash(pack_statement(self.worker, self.period, self.flows))

    def moved_uc(self, code: TransferCode) -> int:
        """Return the sum of one kind of transfer."""
        return self.flows.moved.get(code, 0)


def statement(connection: Connection, worker: bytes, period: Period) -> Statement:
    """Return a worker's statement of a period.

    Raises:
        DifferenceFound: its receipts do not add up to what its accounts say.
    """
    flows = worker_flows(connection, period, worker).get(worker, Flows())
    filed = filed_sums(connection, period, worker)
    states = sums_by_state(connection, period, worker, filed)
    made = Statement(
        worker=worker,
        period=period,
        flows=flows,
        by_backbone=_by_backbone(connection, filed),
        by_epoch=_by_epoch(connection, filed),
        standby=standby_lines(connection, worker, period),
        states=states,
        payouts=_payouts(connection, worker, period),
        late_receipts=sum(each.late_receipts for each in filed),
        late_uc=sum(each.late_uc for each in filed),
        checkpoint=_checkpoint(connection, worker, period),
        closed_period=_closed_period(connection, period),
    )
    receipts_uc = sum(line.amount_uc for line in states if line.is_earned)
    if receipts_uc != made.earned_uc:
        raise DifferenceFound(
            f"statement of {short(worker)}: receipts of {receipts_uc} micro-credits, "
            f"accounts earned {made.earned_uc}"
        )
    standby_uc = sum(line.amount_uc for line in made.standby)
    if standby_uc != made.standby_uc:
        raise DifferenceFound(
            f"statement of {short(worker)}: standby papers of {standby_uc} "
            f"micro-credits, accounts got {made.standby_uc}"
        )
    return made


def _by_backbone(
    connection: Connection, filed: list[FiledSum]
) -> tuple[BackboneLine, ...]:
    base = base_prices(connection, {each.price_table_hash for each in filed})
    by_backbone: dict[bytes, list[FiledSum]] = {}
    for each in filed:
        by_backbone.setdefault(each.backbone, []).append(each)
    return tuple(
        BackboneLine(
            backbone=backbone,
            vouchers=sum(each.receipts for each in some),
            servings=sum(each.servings for each in some),
            rows=sum(each.rows for each in some),
            earned_uc=sum(each.amount_uc for each in some),
            base_uc=sum(each.rows * base[each.price_table_hash] for each in some),
        )
        for backbone, some in sorted(by_backbone.items())
    )


def _by_epoch(connection: Connection, filed: list[FiledSum]) -> tuple[EpochLine, ...]:
    by_table: dict[bytes, list[FiledSum]] = {}
    for each in filed:
        by_table.setdefault(each.price_table_hash, []).append(each)
    base = base_prices(connection, set(by_table))
    columns = (price_table.c.hash, price_table.c.epoch, price_table.c.manifest_hash)
    asked = sorted(by_table)
    tables = [
        row
        for at in range(0, len(asked), _MAX_ASKED)
        for row in connection.execute(
            select(*columns).where(price_table.c.hash.in_(asked[at : at + _MAX_ASKED]))
        )
    ]
    lines = [
        EpochLine(
            epoch=row.epoch,
            price_table_hash=row.hash,
            manifest_hash=row.manifest_hash,
            row_uc=base[row.hash],
            receipts=sum(each.receipts for each in by_table[row.hash]),
            servings=sum(each.servings for each in by_table[row.hash]),
            rows=sum(each.rows for each in by_table[row.hash]),
            earned_uc=sum(each.amount_uc for each in by_table[row.hash]),
        )
        for row in tables
    ]
    return tuple(sorted(lines, key=lambda line: (line.epoch, line.price_table_hash)))


def _payouts(
    connection: Connection, worker: bytes, period: Period
) -> tuple[PayoutLine, ...]:
    parts = (
        select(func.sum(payout_item.c.amount_uc))
        .where(payout_item.c.payout_id == payout.c.id)
        .scalar_subquery()
    )
    _, standby = standby_parts(payout.c.id)
    rows = connection.execute(
        select(payout, parts.label("parts_uc"), standby.label("standby_uc"))
        .join(account, account.c.id == payout.c.account_id)
        .where(
            account.c.owner == worker,
            payout.c.prepared_us >= period.start_us,
            payout.c.prepared_us < period.end_us,
        )
        .order_by(payout.c.prepared_us, payout.c.id)
    )
    return tuple(
        PayoutLine(
            id=row.id,
            state=row.state,
            amount_uc=row.amount_uc,
            rounding_uc=int(row.parts_uc or 0) + int(row.standby_uc) - row.amount_uc,
            currency=row.currency,
            amount_minor=row.amount_minor,
            prepared_us=row.prepared_us,
            external_ref=row.external_ref or "",
        )
        for row in rows
    )


def _checkpoint(
    connection: Connection, worker: bytes, period: Period
) -> CheckpointLine | None:
    last: int | None = connection.execute(
        select(func.max(closing.c.log_index))
        .join(account, account.c.id == closing.c.worker_account)
        .where(account.c.owner == worker, closing.c.closed_us < period.end_us)
    ).scalar_one()
    if last is None:
        return None
    row = connection.execute(
        select(checkpoint)
        .where(checkpoint.c.size > last)
        .order_by(checkpoint.c.size)
        .limit(1)
    ).one_or_none()
    if row is None:
        return None
    return CheckpointLine(size=row.size, root=row.root, posted_us=row.posted_us)


def _closed_period(connection: Connection, period: Period) -> ClosedPeriod | None:
    row = connection.execute(
        select(period_table).where(
            period_table.c.start_us == period.start_us,
            period_table.c.end_us == period.end_us,
        )
    ).one_or_none()
    if row is None:
        return None
    return ClosedPeriod(
        name=row.name,
        closed_us=row.closed_us,
        statement_root=row.statement_root,
        late=row.late,
    )
