"""The ledger's speed: receipts where they are made, and the database behind them.

Each figure stands beside the plain way of doing it, measured in the same run. The two
long runs, with kills and with ten million servings, are `tests.benchmarks.ledger_runs`.
"""

from tests.benchmarks import ledger_storing
from tests.benchmarks.figures import Figure
from tests.benchmarks.ledger_receipts import receipt_figures

__all__ = ["notes", "run"]


def run() -> list[Figure]:
    """Measure; about four minutes."""
    return [*receipt_figures(), *ledger_storing.database_figures()]


def notes() -> list[str]:
    """Say what could not be measured here."""
    return ledger_storing.notes()
