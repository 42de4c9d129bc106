"""In which one state every receipt is: paid, pending, held, or rejected, and why.

Contract: read-only. A receipt here is what one voucher added to the one before it; it
was filed, or waits for its worker's signature, or was refused. It is in the period in
which the ledger stored it first; a refused copy counts until the voucher itself is
taken. States are those of now, the same whatever the period: sums by state add up over
periods too. Of a receipt whose parts are in several states the least advanced counts:
it is paid when all of it that is the worker's is paid.

    pending   open       its tab may still grow
              window     closed; may be disputed for a time
              available  released; in no payout yet
              payout     in a payout that has not arrived yet
              rest       paid but for the holdback, which is released and will be
    held      one-sided  the worker has not signed it
              dispute    somebody questions it
              holdback   a part is kept back for a time
    paid                 in full, but for the fee
              forfeited  but for the holdback, which was lost
    rejected  reversed   a dispute of it was upheld, or an audit failed
              expired    the worker never signed it
              ...        else the reason of the refusal, as in the answer to its sender
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Select,
    Subquery,
    and_,
    case,
    func,
    or_,
    select,
)

from ledger.claims import RejectReason
from ledger.errors import RemoteError
from ledger.periods import ALL_TIME, Period, format_us
from ledger.schema import account, filing, rejected, voucher
from ledger.schema_closing import closing, one_sided, payout, payout_item
from ledger.voucher import Voucher, voucher_hash

__all__ = [
    "ReceiptLine",
    "ReceiptState",
    "payment_ranks",
    "receipts",
    "state_label",
    "unfiled_receipts",
    "why_sentence",
    "within",
]

_REASONS = frozenset(RejectReason)
_BATCH = 256  # refused vouchers in memory at once
_MAX_ASKED = 500  # hashes in one query
_UNDER_WAY = ("prepared", "sending", "sent", "unresolved")


class ReceiptState(StrEnum):
    """What became of a receipt."""

    PAID = "paid"
    PENDING = "pending"
    HELD = "held"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptLine:
    """One receipt."""

    state: ReceiptState
    why: str
    detail: str  # one sentence where there is more to say, else empty
    worker: bytes
    backbone: bytes
    tab: bytes
    price_epoch: int
    number: int
    servings: int  # added by this voucher; all that a refused one claimed
    amount_uc: int  # added by this voucher; what a refused one claimed
    posted_us: int
    due_us: int  # when the state ends by itself, 0 if it does not
    voucher_hash: bytes


def receipts(
    connection: Connection,
    *,
    worker: bytes | None = None,
    period: Period = ALL_TIME,
    most: int | None = None,
) -> list[ReceiptLine]:
    """Return every receipt, each once, in the order of their coming.

    With `most`, the first so many: then no more is read of what was filed.
    """
    lines = _filed_lines(connection, worker, period, most)
    lines += unfiled_receipts(connection, period, worker)
    return sorted(lines, key=_order)[:most]


def _order(line: ReceiptLine) -> tuple[int, bytes, int, bytes]:
    return line.posted_us, line.tab, line.number, line.voucher_hash


def unfiled_receipts(
    connection: Connection, period: Period, worker: bytes | None = None
) -> list[ReceiptLine]:
    """Return those that came into no account: of one side alone, and refused ones."""
    lines = _one_sided_lines(connection, worker, period)
    return lines + _rejected_lines(connection, worker, period)


def why_sentence(line: ReceiptLine) -> str:
    """Say in one sentence why a receipt is in its state."""
    sentence = _SENTENCES.get((line.state, line.why))
    if sentence is None:
        return f"refused: {line.detail or line.why}"
    if line.due_us:
        return f"{sentence} until {format_us(line.due_us)}"
    return sentence


_SENTENCES = {
    (ReceiptState.PENDING, "open"): "its tab is not closed: more may come",
    (ReceiptState.PENDING, "window"): "closed; either side may dispute it",
    (ReceiptState.PENDING, "available"): "released; it waits for the next payout",
    (ReceiptState.PENDING, "payout"): "in a payout that is not confirmed yet",
    (ReceiptState.PENDING, "rest"): "paid but for the holdback, which is on its way",
    (ReceiptState.HELD, "one-sided"): "the worker has not signed it yet",
    (ReceiptState.HELD, "dispute"): "a dispute of it is open",
    (ReceiptState.HELD, "holdback"): "a part of it is held back",
    (ReceiptState.PAID, ""): "paid in full, but for the fee",
    (ReceiptState.PAID, "forfeited"): "paid, but for the holdback, which was lost",
    (ReceiptState.REJECTED, "reversed"): "a dispute was upheld, or an audit failed",
    (ReceiptState.REJECTED, "expired"): "the worker did not sign it in time",
}


def within(
    column: ColumnElement[int], period: Period
) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the conditions that an instant is in a period."""
    return column >= period.start_us, column < period.end_us


def payment_ranks(worker: bytes | None) -> Subquery:
    """Return for each voucher how far its parts are paid: 2 paid, 1 under way, 0."""
    rank = case(
        (payout.c.state == "confirmed", 2), (payout.c.state.in_(_UNDER_WAY), 1), else_=0
    )
    of_net = case((payout_item.c.part == "net", rank), else_=0)
    of_holdback = case((payout_item.c.part == "holdback", rank), else_=0)
    statement = (
        select(
            payout_item.c.voucher_id,
            func.max(of_net).label("net"),
            func.max(of_holdback).label("holdback"),
        )
        .join(payout, payout.c.id == payout_item.c.payout_id)
        .group_by(payout_item.c.voucher_id)
    )
    if worker is not None:
        statement = statement.join(account, account.c.id == payout.c.account_id).where(
            account.c.owner == worker
        )
    return statement.subquery()


def state_label(ranks: Subquery) -> ColumnElement[str]:
    """Return the SQL expression of a filed receipt's `state:why`."""
    net, held = func.coalesce(ranks.c.net, 0), func.coalesce(ranks.c.holdback, 0)
    no_net = closing.c.net_uc == 0
    no_holdback = or_(closing.c.held_uc == 0, closing.c.holdback == "forfeited")
    is_net_paid = or_(no_net, net == 2)
    is_paid = and_(is_net_paid, or_(no_holdback, held == 2))
    is_under_way = and_(or_(no_net, net >= 1), or_(no_holdback, held >= 1))
    return case(
        (closing.c.voucher_id.is_(None), "pending:open"),
        (closing.c.state == "reversed", "rejected:reversed"),
        (closing.c.state == "disputed", "held:dispute"),
        (closing.c.state == "closed", "pending:window"),
        (closing.c.holdback == "held", "held:holdback"),
        (and_(is_paid, closing.c.holdback == "forfeited"), "paid:forfeited"),
        (is_paid, "paid:"),
        (and_(closing.c.net_uc > 0, is_net_paid), "pending:rest"),
        (is_under_way, "pending:payout"),
        else_="pending:available",
    )


def _filed_lines(
    connection: Connection, worker: bytes | None, period: Period, most: int | None
) -> list[ReceiptLine]:
    ranks = payment_ranks(worker)
    statement: Select[Any] = (
        select(
            state_label(ranks).label("label"),
            filing.c.content_hash,
            filing.c.number,
            filing.c.leaves,
            filing.c.amount_uc,
            filing.c.posted_us,
            voucher.c.worker,
            voucher.c.backbone,
            voucher.c.tab,
            voucher.c.price_epoch,
            closing.c.release_due_us,
            closing.c.holdback_due_us,
        )
        .join_from(filing, voucher, voucher.c.id == filing.c.voucher_id)
        .outerjoin(closing, closing.c.voucher_id == filing.c.voucher_id)
        .outerjoin(ranks, ranks.c.voucher_id == filing.c.voucher_id)
        .where(*within(filing.c.posted_us, period))
    )
    if worker is not None:
        statement = statement.where(voucher.c.worker == worker)
    if most is not None:
        order = (filing.c.posted_us, voucher.c.tab, filing.c.number)
        statement = statement.order_by(*order, filing.c.content_hash).limit(most)
    return [_filed_line(row) for row in connection.execute(statement)]


def _filed_line(row: Row[Any]) -> ReceiptLine:
    state, _, why = row.label.partition(":")
    due = {"window": row.release_due_us, "holdback": row.holdback_due_us}
    return ReceiptLine(
        state=ReceiptState(state),
        why=why,
        detail="",
        worker=row.worker,
        backbone=row.backbone,
        tab=row.tab,
        price_epoch=row.price_epoch,
        number=row.number,
        servings=row.leaves,
        amount_uc=row.amount_uc,
        posted_us=row.posted_us,
        due_us=due.get(why) or 0,
        voucher_hash=row.content_hash,
    )


def _one_sided_lines(
    connection: Connection, worker: bytes | None, period: Period
) -> list[ReceiptLine]:
    """Return final vouchers that the backbone alone signed; those since are filed."""
    key = ("worker", "backbone", "tab", "price_epoch")
    same = and_(*(voucher.c[name] == one_sided.c[name] for name in key))
    statement = (
        select(
            one_sided,
            func.coalesce(voucher.c.amount_uc, 0).label("filed_uc"),
            func.coalesce(voucher.c.leaves, 0).label("filed_leaves"),
        )
        .join_from(one_sided, voucher, same, isouter=True)
        .where(one_sided.c.state != "signed", *within(one_sided.c.seen_us, period))
    )
    if worker is not None:
        statement = statement.where(one_sided.c.worker == worker)
    return [_one_sided_line(row) for row in connection.execute(statement)]


def _one_sided_line(row: Row[Any]) -> ReceiptLine:
    claimed = _parsed(row.raw)
    is_held = row.state == "held"
    servings = claimed.leaves - row.filed_leaves if claimed else 0
    return ReceiptLine(
        state=ReceiptState.HELD if is_held else ReceiptState.REJECTED,
        why="one-sided" if is_held else "expired",
        detail="signed by the backbone alone",
        worker=row.worker,
        backbone=row.backbone,
        tab=row.tab,
        price_epoch=row.price_epoch,
        number=row.number,
        servings=max(0, servings),
        amount_uc=max(0, row.amount_uc - row.filed_uc),
        posted_us=row.seen_us,
        due_us=0,
        voucher_hash=row.content_hash,
    )


def _rejected_lines(
    connection: Connection, worker: bytes | None, period: Period
) -> list[ReceiptLine]:
    """Return refused vouchers: the first copy of each, unless one was taken since.

    Who has no valid signature may send any voucher: that one copy of it was refused
    says nothing about the voucher itself. A copy that was kept cut off counts alone.
    """
    statement = (
        select(rejected)
        .where(rejected.c.seen_us < period.end_us)
        .order_by(rejected.c.seen_us, rejected.c.digest)
        .execution_options(yield_per=_BATCH)
    )
    if worker is not None:
        statement = statement.where(rejected.c.worker == worker)
    firsts: dict[bytes, ReceiptLine | None] = {}
    with connection.execute(statement) as rows:
        for row in rows:
            content_hash = voucher_hash(row.raw)
            if content_hash not in firsts:
                is_within = row.seen_us in period
                firsts[content_hash] = _rejected_line(row) if is_within else None
    found = {name: line for name, line in firsts.items() if line is not None}
    taken = _taken(connection, list(found))
    return [line for name, line in found.items() if name not in taken]


def _taken(connection: Connection, hashes: list[bytes]) -> set[bytes]:
    """Return which of these vouchers were filed, or are kept with one signature."""
    taken: set[bytes] = set()
    for start in range(0, len(hashes), _MAX_ASKED):
        asked = hashes[start : start + _MAX_ASKED]
        for column in (filing.c.content_hash, one_sided.c.content_hash):
            rows = connection.execute(select(column).where(column.in_(asked)))
            taken.update(rows.scalars())
    return taken


def _rejected_line(row: Row[Any]) -> ReceiptLine:
    claimed = _parsed(row.raw)
    return ReceiptLine(
        state=ReceiptState.REJECTED,
        why=row.reason if row.reason in _REASONS else "unknown",
        detail=row.detail,
        worker=row.worker,
        backbone=row.backbone,
        tab=claimed.tab if claimed else b"",
        price_epoch=claimed.price_epoch if claimed else 0,
        number=claimed.number if claimed else 0,
        servings=claimed.leaves if claimed else 0,
        amount_uc=row.amount_uc,
        posted_us=row.seen_us,
        due_us=0,
        voucher_hash=voucher_hash(row.raw),
    )


def _parsed(raw: bytes) -> Voucher | None:
    try:
        return Voucher.parse(raw)
    except RemoteError:  # kept as received: it may be anything
        return None
