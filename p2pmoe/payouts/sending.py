"""Send prepared payouts: the ledger is told before and after, whatever happens between.

Contract: one command at a time sends a ledger's payouts; it holds a lock in the
ledger's folder. What an earlier command left as being sent becomes unresolved first,
and is not sent again. Then, for each batch: the ledger marks it as being sent, the
adapter sends it, the ledger writes how that ended. Payouts without a fit payee are left
as prepared, with the reason. An adapter that says `stop` leaves the rest prepared.
"""

import contextlib
import fcntl
import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ledger.errors import LedgerError
from p2pmoe.network.folder import give_away
from p2pmoe.payouts.adapter import Adapter, Order, Outcome, OutcomeKind
from p2pmoe.payouts.errors import PayoutError, SendingBusy, Unresolved
from p2pmoe.payouts.payees import Payees

__all__ = ["Sending", "orders_of", "send_orders", "sending_right"]

Ask = Callable[[str, Mapping[str, object]], Mapping[str, Any]]


@dataclass(slots=True)
class Sending:
    """What came of a run."""

    outcomes: list[tuple[Order, Outcome]] = field(default_factory=list)
    recovered: list[str] = field(default_factory=list)  # of earlier runs: unresolved
    left: int = 0  # still prepared, after a stop

    def count(self, kind: OutcomeKind) -> int:
        """Return how many orders ended so."""
        return sum(outcome.kind == kind for _, outcome in self.outcomes)

    @property
    def is_open(self) -> bool:
        """Say whether it is not known of some payout whether it was paid."""
        return bool(self.recovered) or self.count(OutcomeKind.UNRESOLVED) > 0


@contextlib.contextmanager
def sending_right(folder: Path) -> Iterator[None]:
    """Hold the right to send, void or decide the payouts of a ledger's folder.

    Raises:
        SendingBusy: another command holds it.
        PayoutError: the lock cannot be used.
    """
    path = folder / "payout.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise PayoutError(f"cannot use {path}: {exc.strerror}") from exc
    try:
        with contextlib.suppress(OSError):
            give_away(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            raise SendingBusy("another command is sending or deciding payouts") from exc
        yield
    finally:
        os.close(descriptor)


def orders_of(
    payouts: Sequence[Mapping[str, Any]], payees: Payees, adapter: Adapter
) -> tuple[list[Order], list[dict[str, object]]]:
    """Return the orders for prepared payouts, and those without a fit payee.

    Args:
        payouts: documents of the ledger, all prepared for this adapter.
        payees: the payee file as it is now.
        adapter: says whom it can pay.
    """
    orders: list[Order] = []
    skipped: list[dict[str, object]] = []
    for one in payouts:
        worker = bytes.fromhex(one["worker"])
        payee = payees.good.get(worker)
        if payee is None:
            reason = payees.bad.get(worker, "no payee")
        elif payee.name != one["destination"]:
            reason = f"prepared for {one['destination']!r}, now {payee.name!r}: void it"
        else:
            reason = adapter.refusal(payee)
        if payee is None or reason:
            skipped.append({**one, "reason": reason})
            continue
        orders.append(
            Order(
                id=one["id"],
                key=one["key"],
                period=one["period"],
                amount_minor=one["amount_minor"],
                currency=one["currency"],
                payee=payee,
            )
        )
    return orders, skipped


def send_orders(
    ask: Ask,
    adapter: Adapter,
    orders: Sequence[Order],
    progress: Callable[[int], None] = lambda _: None,
) -> Sending:
    """Send orders; call with the right to send in hand.

    Args:
        ask: runs an operation of the ledger.
        adapter: makes the payments.
        orders: what to send.
        progress: called with how many more are done.

    Raises:
        Unresolved: payments were made, and the ledger could not be told.
        LedgerError: the ledger refused before anything was sent.
    """
    found = Sending(recovered=list(ask("payout.recover", {})["unresolved"]))
    batches = _batches(orders, adapter.max_orders)
    n_done = 0
    for batch in batches:
        ask("payout.start", {"payouts": [{"id": order.id} for order in batch]})
        outcomes = adapter.send(batch)
        _record(ask, batch, outcomes)
        found.outcomes += zip(batch, outcomes, strict=True)
        n_done += len(batch)
        progress(len(batch))
        if any(outcome.stop for outcome in outcomes):
            break
    found.left = len(orders) - n_done
    return found


def _record(ask: Ask, batch: Sequence[Order], outcomes: Sequence[Outcome]) -> None:
    rows = [
        {
            "id": order.id,
            "state": outcome.kind.value,
            "detail": outcome.detail[:200],
            "reference": outcome.reference[:200],
        }
        for order, outcome in zip(batch, outcomes, strict=True)
    ]
    try:
        ask("payout.record", {"outcomes": rows})
    except LedgerError as exc:
        said = ", ".join(sorted({outcome.kind.value for outcome in outcomes}))
        raise Unresolved(
            f"{len(batch)} payouts from {batch[0].id} on ended as {said}, which could "
            f"not be written: {exc}"
        ) from exc


def _batches(orders: Sequence[Order], max_orders: int) -> Iterator[list[Order]]:
    """Return orders of one currency together, at most `max_orders` at once."""
    by_currency = sorted(orders, key=lambda order: order.currency)
    for _, group in itertools.groupby(by_currency, lambda order: order.currency):
        alike = list(group)
        for start in range(0, len(alike), max_orders):
            yield alike[start : start + max_orders]
