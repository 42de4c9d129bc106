"""The states' sums are the sum of all, in one pass over what was filed."""

import pytest

from ledger.periods import ALL_TIME, Period
from ledger.receipt_states import ReceiptState, receipts
from ledger.receipt_sums import StateLine, filed_sums, sums_by_state
from tests.support.ledger_world import NOVEMBER_US
from tests.support.receipt_ways import WAYS, books_of_every_way


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    return books_of_every_way(tmp_path_factory.mktemp("ledger"))


def test_b33_sums_of_states_are_the_sum_of_all(books):
    worker = books.world.worker.id
    with books.reader().session() as connection:
        lines = receipts(connection, worker=worker)
        states = sums_by_state(connection, ALL_TIME, worker)
        everyone = receipts(connection)
    found: dict[tuple[str, str], list[int]] = {}
    for line in lines:
        entry = found.setdefault((line.state, line.why), [0, 0, 0])
        for n, added in enumerate((1, line.servings, line.amount_uc)):
            entry[n] += added
    assert {
        (state.state, state.why): [state.receipts, state.servings, state.amount_uc]
        for state in states
    } == found
    assert len(lines) == len(WAYS) + 2 + 1 + 2
    assert len({(line.voucher_hash, line.why) for line in lines}) == len(lines)
    earned = sum(state.amount_uc for state in states if state.is_earned)
    claimed = sum(state.amount_uc for state in states if not state.is_earned)
    assert earned + claimed == sum(line.amount_uc for line in lines)
    assert [(line.state, line.why) for line in everyone if not line.worker] == [
        ("rejected", "format")
    ]
    assert len(everyone) == len(lines) + 2


def test_one_sided_ones_count_once(books):
    with books.reader().session() as connection:
        states = sums_by_state(connection, ALL_TIME, books.world.worker.id)
    amounts = {(state.state, state.why): state.amount_uc for state in states}
    assert amounts["held", "one-sided"] == 1000
    assert amounts["rejected", "expired"] == 70
    assert 9999 not in amounts.values()  # signed since: it is filed


def test_periods_do_not_change_states(books):
    worker = books.world.worker.id
    with books.reader().session() as connection:
        (none, some, both) = (
            sums_by_state(connection, Period(*span), worker)
            for span in (
                (0, NOVEMBER_US),
                (NOVEMBER_US, NOVEMBER_US + 1),
                (0, NOVEMBER_US + 1),
            )
        )
        assert receipts(connection, period=Period(0, NOVEMBER_US)) == []
    assert none == ()
    assert some == both


def test_what_was_filed_is_summed_by_backbone_and_prices(books):
    worker = books.world.worker.id
    with books.reader().session() as connection:
        found = filed_sums(connection, ALL_TIME, worker)
        later = filed_sums(connection, Period(NOVEMBER_US + 1, 2**50), worker)
    assert later == []
    assert {each.backbone for each in found} == {books.world.backbone.id}
    prices = {each.price_table_hash for each in found}
    assert prices == {books.world.prices.content_hash}
    assert sum(each.receipts for each in found) == len(WAYS) + 2
    assert {each.late_receipts for each in found} == {0}


@pytest.mark.parametrize(
    ("state", "why", "is_earned"),
    [
        ("paid", "", True),
        ("held", "one-sided", False),
        ("held", "dispute", True),
        ("rejected", "reversed", True),
        ("rejected", "expired", False),
        ("rejected", "signature", False),
    ],
)
def test_what_came_into_the_accounts(state, why, is_earned):
    line = StateLine(
        state=ReceiptState(state), why=why, receipts=1, servings=1, amount_uc=1
    )
    assert line.is_earned is is_earned
