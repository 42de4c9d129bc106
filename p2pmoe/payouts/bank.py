"""Payments through a bank: a pain.001 file and the same as CSV, for the operator.

Contract: both files are written whole or not at all, and on the disk, before an order
counts as sent; a file of that name is never written over. What the bank makes of them
its statement tells (`reconcile`). A fault takes both away again, and means that nothing
can have been paid.
"""

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

from ledger.folders import sync_folder
from ledger.periods import format_us
from ledger.rates import format_money
from p2pmoe.network.errors import FolderUnusable
from p2pmoe.network.folder import replace_file
from p2pmoe.payouts.adapter import Order, Outcome, OutcomeKind
from p2pmoe.payouts.pain001 import Debtor, message_id, pack_pain001
from p2pmoe.payouts.payees import Payee

__all__ = ["BankFiles", "pack_csv"]

_MAX_ORDERS = 10_000  # in one file
_COLUMNS = ("end_to_end_id", "name", "iban", "bic", "amount", "currency", "period")


class BankFiles:
    """Writes one payment file for all orders of a run."""

    name = "bank"
    max_orders = _MAX_ORDERS

    def __init__(
        self,
        debtor: Debtor,
        folder: Path,
        *,
        wall_us: Callable[[], int],
        execute_on: str | None = None,
    ) -> None:
        """Take whose account pays, where the files go, and the clock.

        Args:
            debtor: the operator's account.
            folder: existing folder for the files.
            wall_us: microseconds since 1970 UTC.
            execute_on: the day the bank is asked to pay, `2026-12-01`; else today.
        """
        self._debtor = debtor
        self._folder = folder
        self._wall_us = wall_us
        self._execute_on = execute_on
        self.written: list[Path] = []

    def refusal(self, payee: Payee) -> str:
        """Say why this payee cannot be paid by the bank; empty if it can."""
        return "" if payee.iban else f"payee {payee.name!r} has no IBAN"

    def send(self, orders: Sequence[Order]) -> list[Outcome]:
        """Write the files; every order is then sent, or every one failed."""
        now = format_us(self._wall_us())
        raw = pack_pain001(
            orders,
            self._debtor,
            created=f"{now[:19]}Z",
            execute_on=self._execute_on or now[:10],
        )
        path = self._folder / f"payout-{message_id(orders)}.xml"
        if path.exists():  # these very orders: in a ledger that was restored, perhaps
            detail = f"{path.name} exists already: was it given to the bank?"
            unknown = Outcome(kind=OutcomeKind.UNRESOLVED, detail=detail, stop=True)
            return [unknown] * len(orders)
        table = path.with_suffix(".csv")
        try:
            replace_file(table, pack_csv(orders))
            replace_file(path, raw)  # last: this one is what a bank takes
            sync_folder(self._folder)
        except (FolderUnusable, OSError) as exc:
            return [_undone(exc, path, table)] * len(orders)
        self.written += [path, table]
        return [Outcome(kind=OutcomeKind.SENT, detail=path.name)] * len(orders)


def pack_csv(orders: Sequence[Order]) -> bytes:
    """Return the orders as CSV, for people and for banks without ISO 20022."""
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for order in orders:
        amount = format_money(order.amount_minor, order.currency)
        payee = order.payee
        row = (order.key, payee.name, payee.iban, payee.bic, amount)
        writer.writerow([*map(_inert, row), order.currency, order.period])
    return text.getvalue().encode()


def _undone(error: Exception, *paths: Path) -> Outcome:
    """Take back what was written: a bank may take either file, so neither may stay."""
    kind, detail = OutcomeKind.FAILED, str(error)
    for path in paths:
        try:
            path.unlink(missing_ok=True)
        except OSError as exc:
            kind, detail = OutcomeKind.UNRESOLVED, f"{path.name} may lie there: {exc}"
    return Outcome(kind=kind, detail=detail[:200], stop=True)


def _inert(cell: str) -> str:
    """Keep a spreadsheet from taking a name for a formula."""
    return f"'{cell}" if cell[:1] in "=+-@\t\r" and cell else cell
