"""Audit of closed periods."""

import pytest

from ledger.audit_periods import check_periods
from tests.support.audits import difference_after


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update period set last_seq = last_seq + 1 where id = 1", "last transfer"),
        ("update period set log_size = log_size - 1 where id = 1", "size of the log"),
        ("update period set log_root = zeroblob(32) where id = 2", "root of the log"),
        ("update period set statement_root = zeroblob(32)", "statements is 00"),
        ("update period set late = '' where id = 2", "note is"),
        ("update period set closed_us = end_us - 1", "before it was over"),
        ("update period set name = '2026-13' where id = 2", "period 2026-13"),
        ("update period set start_us = start_us + 1 where id = 2", "borders"),
        (
            "update period set name = '2026-12-01..2027-01-01' where id = 1",
            "borders is",
        ),
        ("delete from period where id = 1", "lies before period 2026-12"),
    ],
)
def test_a_closed_period_holds(change, found):
    assert found in difference_after(change, part=check_periods)
