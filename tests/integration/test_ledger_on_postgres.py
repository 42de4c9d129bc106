"""The ledger's own suite once more, with every ledger in PostgreSQL.

What is left out opens SQLite's file past the ledger, or has both databases already.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.postgres import needs_postgres

_ROOT = Path(__file__).resolve().parents[2]
_MODULES = (
    "beacon_draw",
    "beacon_rows",
    "beacon_verdicts",
    "closing",
    "disputes",
    "export",
    "filings",
    "holdback",
    "one_sided",
    "paid_demand",
    "payout_standby",
    "penalties",
    "periods_closing",
    "receipt_states",
    "settlement",
    "standby_booking",
    "standby_pot",
    "standby_sums",
    "statements",
    "store",
    "tending",
    "writer",
)


@pytest.mark.slow
def test_one_suite_passes_on_both():
    needs_postgres()
    modules = [f"tests/ledger/test_{name}.py" for name in _MODULES]
    options = ["-q", "-p", "no:cacheprovider", "--ledger-database", "postgresql"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *modules],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
