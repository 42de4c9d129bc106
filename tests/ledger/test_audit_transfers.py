"""Audit of transfers and balances."""

import pytest

from tests.support.audits import difference_after


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update transfer set posted_us = 1 where seq = 5", "posted_us is 1"),
        ("update transfer set debit_id = 999 where seq = 5", "no such account"),
        ("update account set kind = 'slush' where kind = 'fee'", "kind 'slush'"),
        ("update account set credits_uc = credits_uc + 1", "credits is"),
        ("update transfer set code = 'reverse' where code = 'settle'", "code is"),
        ("delete from transfer where code = 'unhold'", "number is"),
    ],
)
def test_a_transfer_has_its_reason(change, found):
    assert found in difference_after(change)


def test_what_is_missing_is_named():
    last = "where seq = (select max(seq) from transfer)"
    change = f"update transfer set code = 'fund', id = randomblob(16) {last}"  # noqa: S608
    assert "unexplained" in difference_after(change)
    assert "is missing" in difference_after(f"delete from transfer {last}")  # noqa: S608


def test_nothing_is_used_before_it_is_there():
    message = difference_after(
        "update transfer set seq = 1000 where seq = 1",
        "update transfer set seq = 1 where seq = 2",
        "update transfer set seq = 2 where seq = 1000",
    )
    assert "below zero" in message
