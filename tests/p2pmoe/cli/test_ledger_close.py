"""Closing a period from the command line: once, said again the same way."""

from ledger.errors import PeriodRefused
from p2pmoe.errors import ConfigurationError
from tests.support.ledger_commands import document_of, run
from tests.support.paid_world import PaidWorld


def test_a_period_is_closed_and_listed(tmp_path):
    PaidWorld(tmp_path, 1)  # closes November
    again = document_of(tmp_path, "close", "2026-11")
    assert again["already"] is True
    assert len(again["statement_root"]) == 64
    (row,) = document_of(tmp_path, "periods")["periods"]
    assert row == {name: again[name] for name in again if name != "already"}
    assert "2026-11-01T00:00:00.000000Z" in run(tmp_path, "periods").stdout
    text = run(tmp_path, "close", "2026-11").stdout
    assert "statement_root" in text
    assert "closed_us" not in text


def test_what_is_not_over_is_refused(tmp_path):
    PaidWorld(tmp_path, 1)
    result = run(tmp_path, "close", "2998-11")
    assert isinstance(result.exception, PeriodRefused)
    assert "is not over" in str(result.exception)


def test_what_is_no_whole_month_is_closed_only_if_it_is_meant(tmp_path):
    PaidWorld(tmp_path, 1)
    odd = "2998-12-01..2998-12-03"  # not over, whenever this is run
    refused = run(tmp_path, "close", odd)
    assert isinstance(refused.exception, ConfigurationError)
    assert "no whole month" in str(refused.exception)
    meant = run(tmp_path, "close", odd, "--any-days")
    assert isinstance(meant.exception, PeriodRefused)
    assert "is not over" in str(meant.exception)
