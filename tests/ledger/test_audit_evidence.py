"""Audit of price tables, policies and grants."""

import pytest

from tests.support.audits import difference_after


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update price_table set seen_us = 1, epoch = 8", "epoch is 8"),
        ("update price_table set manifest_hash = zeroblob(32)", "model is 00"),
        ("update policy set signature = zeroblob(64) where seq = 2", "does not verify"),
        ("update policy set posted_us = 1 where seq = 2", "set is 1"),
        ("update policy set hash = zeroblob(32) where seq = 2", "hash is 00"),
        ("update granted set serial = zeroblob(8) where used_uc = 0", "serial is 00"),
        ("update granted set used_uc = 1 where used_uc = 0", "used is 1"),
        ("delete from price_table", "price table is missing"),
    ],
)
def test_what_was_signed_holds(change, found):
    assert found in difference_after(change)


def test_two_policies_do_not_change_places():
    message = difference_after(
        "update policy set seq = 9 where seq = 1",
        "update policy set seq = 1 where seq = 2",
        "update policy set seq = 2 where seq = 9",
    )
    assert "set before the one ahead of it" in message
