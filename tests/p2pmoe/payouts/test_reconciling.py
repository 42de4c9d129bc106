"""The statement against the payouts: what arrived, what does not fit, and why."""

from dataclasses import replace

import pytest

from p2pmoe.payouts.reconciling import reconcile
from p2pmoe.payouts.statement_line import StatementLine
from tests.support.payout_orders import order


def line(n=1, minor=1234, *, is_debit=True, currency="EUR", reference="B-1", key=None):
    return StatementLine(
        end_to_end_id=order(n).key if key is None else key,
        amount_minor=minor,
        currency=currency,
        is_debit=is_debit,
        date="2026-12-03",
        reference=reference,
    )


def payout(n=1, state="sent", minor=1234):
    return {
        "id": order(n).id,
        "key": order(n).key,
        "state": state,
        "amount_minor": minor,
        "money": f"{minor // 100}.{minor % 100:02d}",
        "currency": "EUR",
    }


def test_what_arrived_is_to_be_confirmed():
    found = reconcile([line()], [payout(), payout(2)])
    (match,) = found.matches
    assert (match.id, match.reference) == (order(1).id, "B-1")
    assert "2026-12-03" in match.detail
    assert [row["id"] for row in found.open] == [order(2).id]
    assert (found.differences, found.unresolved, found.n_other) == ([], [], 0)
    again = reconcile([line()], [payout(state="confirmed")])
    assert (again.n_confirmed, again.matches) == (1, [])


def test_a_reference_of_a_whole_batch_is_nobodys():
    found = reconcile([line(1), line(2)], [payout(1), payout(2)])
    assert [match.reference for match in found.matches] == ["", ""]


@pytest.mark.parametrize("reference", ["R" * 201, "two\tparts", "\x1b[2J"])
def test_an_odd_reference_is_left_out_and_stops_nobody(reference):
    odd = replace(line(1, reference=reference), date="\x1b[31m")
    found = reconcile([odd, line(2)], [payout(1), payout(2)])
    assert [match.reference for match in found.matches] == ["", "B-1"]
    assert "no date" in found.matches[0].detail


def test_other_business_of_the_account_is_only_counted():
    lines = [line(key=""), line(key="rent 11/2026"), line(key="x" * 32)]
    found = reconcile(lines, [])
    assert (found.n_other, found.differences) == (3, [])


@pytest.mark.parametrize(
    ("lines", "state", "reason"),
    [
        ([line(minor=1235)], "sent", "has paid 12.35 EUR"),
        ([line(currency="USD")], "sent", "has paid 12.34 USD"),
        ([line(), line()], "sent", "has paid it 2 times"),
        ([line(), line(is_debit=False)], "sent", "resolve it with --not-paid"),
        (
            [line(), line(is_debit=False)],
            "confirmed",
            "after it was confirmed",
        ),
        ([line(is_debit=False)], "sent", "a payment has a minus"),
        ([line()], "prepared", "but it is prepared"),
        ([line()], "void", "but it is void"),
        ([line()], "failed", "but it is failed"),
        ([line(), line()], "confirmed", "has paid it 2 times"),
    ],
)
def test_what_does_not_fit(lines, state, reason):
    found = reconcile(lines, [payout(state=state)])
    (row,) = found.differences
    assert reason in row["reason"]
    assert (row["id"], row["state"], found.matches) == (order(1).id, state, [])


def test_an_id_of_ours_that_we_do_not_know():
    (row,) = reconcile([line(7)], [payout()]).differences
    assert row["reason"] == "no payout has this id"
    assert (row["id"], row["end_to_end_id"]) == ("", order(7).key)


def test_what_is_unresolved_is_for_the_operator():
    for state in ("unresolved", "sending"):
        found = reconcile([line()], [payout(state=state)])
        assert (found.matches, found.differences) == ([], [])
        assert "--paid" in found.unresolved[0]["reason"]


def test_what_came_back_and_is_known_to_have_failed():
    found = reconcile([line(), line(is_debit=False)], [payout(state="failed")])
    assert (found.n_returned, found.differences) == (1, [])
