"""Audit: what became of every closed voucher, and whether it may have.

Contract: a closing is derived again from the voucher that closed the key and from the
signed policy that held then: fee, holdback, rest, the instants they fall due, its entry
of the log. Its state must be one that its disputes and audits allow, and demands the
transfers that belong to it, each at its instant. A holdback is lost only by an upheld
dispute, a failed audit or a proof of equivocation, and by the last two all that were
held are lost. A final voucher is always closed. Reads only; raises `DifferenceFound`.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Row, select

from ledger.accounts import EXTERNAL_OWNER, AccountKind, TransferCode
from ledger.audit_books import Books, Closed, Filed, holds, same
from ledger.errors import DifferenceFound
from ledger.log.entry import entry_hash, pack_entry
from ledger.schema import account, voucher
from ledger.schema_closing import closing, policy
from ledger.voucher import SignedVoucher

__all__ = ["check_closings", "closings_in_order", "entry_of"]

_ROWS_AT_ONCE = 512

_Start = tuple[int, bytes]  # of a policy: since when, and its hash


def check_closings(connection: Connection, books: Books) -> None:
    """Check every closing, in the order of the log."""
    starts = [
        (row.posted_us, row.hash)
        for row in connection.execute(select(policy).order_by(policy.c.seq))
    ]
    accounts = {
        row.id: (row.owner, row.kind) for row in connection.execute(select(account))
    }
    last_us = 0
    for index, row in enumerate(closings_in_order(connection)):
        name = f"closing of voucher {row.content_hash[:4].hex()}"
        same(name, "place in the log", row.log_index, index)
        filed = books.vouchers.get(row.voucher_id)
        if filed is None:
            raise DifferenceFound(f"{name}: there is no such voucher")
        worker_account = (filed.worker, AccountKind.WORKER_PENDING)
        same(name, "account", accounts.get(row.worker_account), worker_account)
        _check_terms(name, row, filed, starts, books)
        _check_state(name, row, filed, books)
        _check_holdback(name, row, filed, books)
        if row.closed_us < max(last_us, filed.posted_us):
            raise DifferenceFound(f"{name}: closed before it could be")
        last_us = row.closed_us
        books.entries.append(row.entry_hash)
        books.closed[row.voucher_id] = Closed(
            content_hash=filed.content_hash,
            policy_hash=books.shared(row.policy_hash),
            closed_us=row.closed_us,
            state=row.state,
            released_us=row.released_us,
            net_uc=row.net_uc,
            holdback=row.holdback,
            holdback_us=row.holdback_us,
            held_uc=row.held_uc,
        )
        books.report.closings += 1
    _check_finals(starts, books)
    _check_pruned(books)


def closings_in_order(
    connection: Connection, start: int = 0, end: int | None = None
) -> Iterator[Row[Any]]:
    """Yield closings with their vouchers' bytes, in order, some at a time.

    Args:
        connection: a reading session.
        start: the first place in the log.
        end: the first place after the last one, None for all.
    """
    columns = (voucher.c.raw, voucher.c.worker_signature, voucher.c.backbone_signature)
    statement = (
        select(closing, *columns)
        .join(voucher, voucher.c.id == closing.c.voucher_id, isouter=True)
        .order_by(closing.c.log_index)
        .limit(_ROWS_AT_ONCE)
    )
    if end is not None:
        statement = statement.where(closing.c.log_index < end)
    while True:
        rows = connection.execute(statement.where(closing.c.log_index >= start)).all()
        if not rows:
            return
        yield from rows
        start = rows[-1].log_index + 1


def entry_of(row: Row[Any]) -> bytes:
    """Return the entry of the log that a closing makes."""
    signed = SignedVoucher(
        raw=row.raw,
        worker_signature=row.worker_signature,
        backbone_signature=row.backbone_signature,
    )
    return pack_entry(signed, row.policy_hash)


def _check_terms(
    name: str,
    row: Row[Any],
    filed: Filed,
    starts: Sequence[_Start],
    books: Books,
) -> None:
    """Check the split and the instants against the policy that held."""
    terms = books.policies.get(row.policy_hash)
    if terms is None:
        raise DifferenceFound(f"{name}: there is no such policy")
    # One that was set at the very instant may hold for it, or not yet.
    n_before = bisect_left(starts, row.closed_us, key=itemgetter(0))
    n_until = bisect_right(starts, row.closed_us, key=itemgetter(0))
    allowed = [
        content_hash for _, content_hash in starts[max(0, n_before - 1) : n_until]
    ]
    holds(name, "its policy held then", row.policy_hash in allowed)
    split = terms.split(filed.amount_uc)
    for column, value in {
        "content_hash": filed.content_hash,
        "entry_hash": entry_hash(entry_of(row)),
        "amount_uc": filed.amount_uc,
        "fee_uc": split.fee_uc,
        "held_uc": split.held_uc,
        "net_uc": split.net_uc,
        "release_due_us": row.closed_us + terms.dispute_us,
        "holdback_due_us": row.closed_us + terms.holdback_us,
    }.items():
        same(name, column, getattr(row, column), value)
    pending = (filed.worker, AccountKind.WORKER_PENDING)
    fee = (EXTERNAL_OWNER, AccountKind.FEE)
    held_back = (filed.worker, AccountKind.WORKER_HELD)
    _expect(books, row, TransferCode.FEE, (pending, fee), split.fee_uc)
    _expect(books, row, TransferCode.HOLD, (pending, held_back), split.held_uc)


def _check_state(name: str, row: Row[Any], filed: Filed, books: Books) -> None:
    """Check where the net amount stands, and demand the transfer that took it there."""
    pending = (filed.worker, AccountKind.WORKER_PENDING)
    disputes = books.disputes.get(row.voucher_id, [])
    is_disputed = any(each.is_pending for each in disputes)
    same(name, "disputed", row.state == "disputed", is_disputed)
    lost = [each.decided_us for each in disputes if each.is_lost_by_worker]
    same(name, "reversed", row.state == "reversed", bool(lost))
    if row.state in {"closed", "disputed"}:
        same(name, "released", row.released_us, None)
    elif row.state == "released":
        if row.released_us < row.release_due_us:
            raise DifferenceFound(f"{name}: released before its window was over")
        available = (filed.worker, AccountKind.WORKER_AVAILABLE)
        sides = (pending, available)
        _expect(books, row, TransferCode.SETTLE, sides, row.net_uc, row.released_us)
    else:
        same(name, "reversed at", [row.released_us], lost)
        deposit = (filed.backbone, AccountKind.CLIENT_DEPOSIT)
        sides = (pending, deposit)
        _expect(books, row, TransferCode.REVERSE, sides, row.net_uc, row.released_us)


def _check_holdback(name: str, row: Row[Any], filed: Filed, books: Books) -> None:
    """Check where the holdback stands, and demand the transfer that took it there."""
    worker = filed.worker
    held = (worker, AccountKind.WORKER_HELD)
    same(name, "has a holdback", row.holdback != "none", row.held_uc > 0)
    lost_us = set(books.equivocations.get(worker, []))
    for each in books.disputes.get(row.voucher_id, []):
        if each.is_lost_by_worker and each.decided_us is not None:
            lost_us.add(each.decided_us)
    if row.holdback in {"none", "held"}:
        same(name, "holdback ended", row.holdback_us, None)
    elif row.holdback == "released":
        if row.holdback_us < row.holdback_due_us:
            raise DifferenceFound(f"{name}: holdback given back before its time")
        available = (worker, AccountKind.WORKER_AVAILABLE)
        sides = (held, available)
        _expect(books, row, TransferCode.UNHOLD, sides, row.held_uc, row.holdback_us)
    else:
        holds(name, "a reason to forfeit", row.holdback_us in lost_us)
        sides = (held, (EXTERNAL_OWNER, AccountKind.PENALTY))
        _expect(books, row, TransferCode.FORFEIT, sides, row.held_uc, row.holdback_us)
    if row.held_uc and row.holdback != "forfeited":
        kept_us = row.holdback_us
        for at_us in sorted(lost_us):
            if row.closed_us < at_us and (kept_us is None or at_us < kept_us):
                raise DifferenceFound(f"{name}: its holdback was to be forfeited")


def _check_finals(starts: Sequence[_Start], books: Books) -> None:
    """Check that every final voucher is closed (since there are policies)."""
    for filed in books.vouchers.values():
        is_new = bool(starts) and filed.posted_us >= starts[0][0]
        if filed.is_final and is_new and filed.id not in books.closed:
            raise DifferenceFound(f"{filed.name}: final, but not closed")


def _check_pruned(books: Books) -> None:
    """Check that leaves were pruned only when the policy no longer kept them."""
    for voucher_id, pruned_us in books.pruned_us.items():
        row = books.closed.get(voucher_id)
        name = f"leaves of {books.vouchers[voucher_id].name}"
        if row is None or row.state not in {"released", "reversed"}:
            raise DifferenceFound(f"{name}: pruned before it was over")
        kept_us = row.closed_us + books.policies[row.policy_hash].retention_us
        if pruned_us <= kept_us:
            raise DifferenceFound(f"{name}: pruned before {kept_us} us")


def _expect(
    books: Books,
    row: Row[Any],
    code: TransferCode,
    sides: tuple[tuple[bytes, AccountKind], tuple[bytes, AccountKind]],
    amount_uc: int,
    posted_us: int | None = None,
) -> None:
    """Demand a transfer named by its voucher; without an instant, that of closing."""
    at_us = row.closed_us if posted_us is None else posted_us
    name = row.content_hash
    books.expect(code, name, sides, amount_uc, name, posted_us=at_us)
