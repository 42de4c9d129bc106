"""Audit of payouts: ids, amounts, steps, parts, and what is paid in all."""

# ruff: noqa: S608  every part of a statement is written here
import pytest

from tests.support.audits import difference_after


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("update payout set period_id = 99 where state = 'sent'", "not closed"),
        ("update payout set account_id = 1 where state = 'sent'", "account is"),
        ("update payout set id = zeroblob(16) where state = 'sent'", "id is 00"),
        ("update payout set idempotency_key = '1' where state = 'sent'", "key is 1"),
        ("update payout set rate = '1/0'", "rate '1/0'"),
        ("update payout set rate = '31/1' where state = 'sent'", "amount is 1860"),
        ("update payout set amount_minor = 7 where state = 'sent'", "amount is 1860"),
        ("update payout set prepared_us = 1 where state = 'sent'", "prepared before"),
        ("update payout set state = 'failed' where state = 'sent'", "state is failed"),
        ("update payout set changed_us = changed_us + 1", "changed is"),
        ("update payout_event set state = 'sending' where state = 'sent'", "after"),
        ("update payout_event set posted_us = 1 where state = 'sent'", "sent before"),
        ("delete from payout_event where state = 'prepared'", "after None"),
        ("update payout_item set amount_uc = amount_uc + 1", "amount is"),
        ("update payout_item set part = 'gift' where rowid = 1", "it is a part"),
        ("update payout_item set payout_id = zeroblob(16) where rowid = 1", "nothing"),
        ("update payout_item set voucher_id = 99 where rowid = 1", "of nothing"),
        ("delete from transfer where code = 'pay' and seq > 90", "number is"),
    ],
)
def test_a_payout_holds(change, found):
    assert found in difference_after(change)


def test_a_part_is_paid_once_and_in_its_time():
    which = "rowid = (select min(rowid) from payout_item where payout_id = (select id "
    december = f"{which}from payout where state = 'prepared' order by id limit 1))"
    november = "(select {} from payout_item where payout_id = (select id from payout "
    november += "where state = 'confirmed') limit 1)"
    parts = ", ".join(
        f"{name} = {november.format(name)}"
        for name in ("voucher_id", "part", "amount_uc")
    )
    message = difference_after(f"update payout_item set {parts} where {december}")
    assert "pays it as well" in message or "worker is" in message


def test_a_second_attempt_follows_one_that_failed():
    message = difference_after("update payout set attempt = 4 where state = 'sent'")
    assert "id is" in message
    message = difference_after("delete from payout where state = 'void'")
    assert "attempt is 3" in message
