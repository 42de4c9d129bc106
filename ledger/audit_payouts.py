"""Audit: every payout has its parts, its steps, and the transfers that they demand.

Contract: a payout's id follows from ledger, period, worker and attempt; its credits
from its money and its rate; its state from its events, each a step that may follow the
one before. What was prepared demands the transfer into clearing, how it ended the one
out of it. A part is released before the period's end and in one living payout; all
living payouts up to a period's end together take no more than was released before it,
but for the rounding of less than a minor unit that one payout leaves to another. Who
was paid at which bank is not here: that is the bank's statement's to say. Reads only;
raises `DifferenceFound`.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, select

from ledger.accounts import EXTERNAL_OWNER, AccountKind, TransferCode
from ledger.audit_books import Books, holds, same
from ledger.errors import DifferenceFound
from ledger.payouts import payout_id_of
from ledger.schema import account
from ledger.schema_closing import payout, payout_event, payout_item, period
from ledger.schema_standby import payout_standby

__all__ = ["check_payouts"]

_RATE = re.compile(r"([1-9][0-9]{0,18})/([1-9][0-9]{0,18})")
_DEAD = {"failed", "void"}
_STEPS = {
    None: {"prepared"},
    "prepared": {"sending", "void"},
    "sending": {"sent", "confirmed", "failed", "unresolved"},
    "sent": {"confirmed", "failed"},
    "unresolved": {"confirmed", "failed"},
}


@dataclass(frozen=True, slots=True)
class _Payout:
    """A payout that was found right by itself."""

    row: Row[Any]
    name: str
    worker: bytes
    end_us: int  # of its period
    one_minor_uc: int  # what one minor unit costs, rounded up

    @property
    def is_living(self) -> bool:
        return self.row.state not in _DEAD


def check_payouts(connection: Connection, books: Books) -> None:
    """Check every payout, its events and its parts."""
    found: dict[bytes, _Payout] = {}
    statement = (
        select(
            payout,
            account.c.owner,
            account.c.kind,
            period.c.start_us,
            period.c.end_us,
            period.c.closed_us,
        )
        .join(account, account.c.id == payout.c.account_id, isouter=True)
        .join(period, period.c.id == payout.c.period_id, isouter=True)
        .order_by(payout.c.period_id, payout.c.account_id, payout.c.attempt)
    )
    for row in connection.execute(statement).all():
        one = _checked(row, books)
        _check_events(connection, one, books)
        found[row.id] = one
        books.report.payouts += 1
        if row.state == "confirmed":
            books.report.paid_uc += row.amount_uc
    _check_attempts(found.values())
    _check_parts(connection, found, books)
    _check_standby_parts(connection, found, books)
    _check_totals(found.values(), books)


def _checked(row: Row[Any], books: Books) -> _Payout:
    name = f"payout {row.id.hex()}"
    if row.end_us is None:
        raise DifferenceFound(f"{name}: its period is not closed")
    same(name, "account", row.kind, AccountKind.WORKER_AVAILABLE)
    borders = row.start_us, row.end_us
    derived = payout_id_of(books.owner.ledger, borders, row.owner, row.attempt)
    same(name, "id", row.id, derived)
    same(name, "idempotency key", row.idempotency_key, row.id.hex())
    rate = _RATE.fullmatch(row.rate)
    if rate is None:
        raise DifferenceFound(f"{name}: rate {row.rate[:40]!r}")
    n, d = int(rate[1]), int(rate[2])
    same(name, "amount", row.amount_uc, -(-row.amount_minor * n // d))
    if row.prepared_us < row.closed_us:
        raise DifferenceFound(f"{name}: prepared before its period was closed")
    return _Payout(row, name, row.owner, row.end_us, -(-n // d))


def _check_events(connection: Connection, one: _Payout, books: Books) -> None:
    """Check the steps in order; demand the transfers of the first and the last."""
    row, state, at_us = one.row, None, one.row.prepared_us
    events = connection.execute(
        select(payout_event)
        .where(payout_event.c.payout_id == row.id)
        .order_by(payout_event.c.seq)
    ).all()
    for event in events:
        if event.state not in _STEPS.get(state, ()):
            raise DifferenceFound(f"{one.name}: {event.state} after {state}")
        if event.posted_us < at_us:
            raise DifferenceFound(f"{one.name}: {event.state} before {state}")
        state, at_us = event.state, event.posted_us
    same(one.name, "state", row.state, state)
    same(one.name, "prepared", row.prepared_us, events[0].posted_us)
    same(one.name, "changed", row.changed_us, at_us)
    available = (one.worker, AccountKind.WORKER_AVAILABLE)
    clearing = (one.worker, AccountKind.PAYOUT_CLEARING)
    outside = (EXTERNAL_OWNER, AccountKind.EXTERNAL)
    moves = [(TransferCode.PAY, (available, clearing), row.prepared_us)]
    if state == "confirmed":
        moves.append((TransferCode.PAID, (clearing, outside), at_us))
    elif not one.is_living:
        moves.append((TransferCode.UNPAY, (clearing, available), at_us))
    for code, sides, moved_us in moves:
        books.expect(code, row.id, sides, row.amount_uc, row.id, posted_us=moved_us)


def _check_attempts(payouts: Iterable[_Payout]) -> None:
    """Check that each new attempt follows one that paid nobody."""
    last: dict[tuple[int, int], _Payout] = {}
    for one in payouts:
        key = one.row.period_id, one.row.account_id
        before = last.get(key)
        attempt = before.row.attempt + 1 if before else 1
        same(one.name, "attempt", one.row.attempt, attempt)
        if before is not None and before.is_living:
            raise DifferenceFound(f"{one.name}: {before.name} is of the same period")
        last[key] = one


def _check_parts(
    connection: Connection, payouts: dict[bytes, _Payout], books: Books
) -> None:
    """Check that parts are what was released, and each in one living payout."""
    taken: dict[tuple[int, str], str] = {}
    for item in connection.execute(select(payout_item)):
        one, closed = payouts.get(item.payout_id), books.closed.get(item.voucher_id)
        if one is None or closed is None:
            raise DifferenceFound(f"a part of voucher {item.voucher_id} of nothing")
        worker = books.vouchers[item.voucher_id].worker
        name = f"{one.name}, {item.part} of {books.vouchers[item.voucher_id].name}"
        same(name, "worker", worker, one.worker)
        is_net = item.part == "net"
        holds(name, "it is a part", item.part in {"net", "holdback"})
        state = closed.state if is_net else closed.holdback
        released_us = closed.released_us if is_net else closed.holdback_us
        same(name, "state", state, "released")
        same(
            name, "amount", item.amount_uc, closed.net_uc if is_net else closed.held_uc
        )
        if released_us is None or released_us >= one.end_us:
            raise DifferenceFound(f"{name}: released after its period")
        if released_us > one.row.prepared_us:
            raise DifferenceFound(f"{name}: released after it was prepared")
        if one.is_living:
            other = taken.setdefault((item.voucher_id, item.part), one.name)
            if other != one.name:
                raise DifferenceFound(f"{name}: {other} pays it as well")


def _check_standby_parts(
    connection: Connection, payouts: dict[bytes, _Payout], books: Books
) -> None:
    """Check that parts of standby pay were given in time, each to one living payout."""
    taken: dict[tuple[int, bytes], str] = {}
    for item in connection.execute(select(payout_standby)):
        one = payouts.get(item.payout_id)
        given = books.standby.get((item.paper, item.worker))
        if one is None or given is None:
            raise DifferenceFound(f"a part of standby paper {item.paper} of nothing")
        name = f"{one.name}, standby pay of paper {item.paper}"
        amount_uc, booked_us = given
        same(name, "worker", item.worker, one.worker)
        same(name, "amount", item.amount_uc, amount_uc)
        holds(name, "it was given in its period", booked_us < one.end_us)
        holds(name, "it was given before", booked_us <= one.row.prepared_us)
        if one.is_living:
            other = taken.setdefault((item.paper, item.worker), one.name)
            if other != one.name:
                raise DifferenceFound(f"{name}: {other} pays it as well")


def _check_totals(payouts: Iterable[_Payout], books: Books) -> None:
    """Check that no more is paid than was released before the periods' ends."""
    released: defaultdict[bytes, list[tuple[int, int]]] = defaultdict(list)
    for voucher_id, row in books.closed.items():
        worker = books.vouchers[voucher_id].worker
        if row.released_us is not None and row.state == "released":
            released[worker].append((row.released_us, row.net_uc))
        if row.holdback_us is not None and row.holdback == "released":
            released[worker].append((row.holdback_us, row.held_uc))
    for (_, worker), (amount_uc, booked_us) in books.standby.items():
        released[worker].append((booked_us, amount_uc))
    living: defaultdict[bytes, list[_Payout]] = defaultdict(list)
    for one in payouts:
        if one.is_living:
            living[one.worker].append(one)
    for worker, paid in living.items():
        for until in paid:
            total = sum(one.row.amount_uc for one in paid if one.end_us <= until.end_us)
            later = sum(one.one_minor_uc for one in paid if one.end_us > until.end_us)
            limit = sum(uc for us, uc in released[worker] if us < until.end_us)
            if total > limit + later:
                raise DifferenceFound(
                    f"{until.name}: {total} paid until its period's end, {limit} "
                    "released"
                )
