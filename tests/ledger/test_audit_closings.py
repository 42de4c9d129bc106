"""Audit of closings: the split, the windows, what disputes and proofs allow."""

import pytest

from tests.support.audits import difference_after


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update closing set fee_uc = fee_uc + 1, net_uc = net_uc - 1", "fee_uc is"),
        ("update closing set held_uc = held_uc + 1, net_uc = net_uc - 1", "held_uc is"),
        ("update closing set log_index = log_index + 1 where log_index = 11", "place"),
        ("update closing set entry_hash = zeroblob(32)", "entry_hash is 00"),
        ("update closing set release_due_us = release_due_us - 1", "release_due_us is"),
        ("update closing set holdback_due_us = 1", "holdback_due_us is 1"),
        ("update closing set worker_account = 1", "account is"),
        ("update closing set state = 'disputed' where log_index = 0", "disputed is"),
        ("update closing set state = 'reversed' where log_index = 0", "reversed is"),
        ("update closing set state = 'closed' where log_index = 0", "released is"),
        ("update closing set released_us = 1 where log_index = 0", "before its window"),
        ("update closing set holdback = 'none' where log_index = 0", "has a holdback"),
        ("update closing set holdback = 'held' where log_index = 0", "holdback ended"),
        (
            "update closing set holdback = 'forfeited' where log_index = 0",
            "not so: a reason to forfeit",
        ),
        ("update closing set holdback_us = 1 where log_index = 0", "before its time"),
        (
            "update closing set policy_hash = (select hash from policy where seq = 2)",
            "policy held then",
        ),
        ("delete from equivocation", "not so: a reason to forfeit"),
        ("delete from closing where log_index = 11", "sums by expert is True"),
    ],
)
def test_a_closing_is_what_follows(change, found):
    assert found in difference_after(change)


def test_a_proven_cheat_keeps_no_holdback():
    """Released instead of forfeited, with the transfer to match."""
    message = difference_after(
        "update closing set holdback = 'released', holdback_us = holdback_due_us "
        "where holdback = 'forfeited' and state = 'released'",
    )
    assert "was to be forfeited" in message


def test_a_final_voucher_is_closed():
    message = difference_after(
        "delete from voucher_expert where voucher_id = (select voucher_id from closing "
        "where log_index = 10)",
        "delete from closing where log_index >= 10",
        "delete from voucher_expert where voucher_id not in "
        "(select voucher_id from closing)",
        "delete from dispute where id = 5",
    )
    assert "final, but not closed" in message
