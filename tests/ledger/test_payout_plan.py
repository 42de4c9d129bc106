"""What is payable: released parts of the period, net and holdback, each once."""

import pytest
from sqlalchemy import select

from ledger.payout_plan import payables
from ledger.periods import parse_period
from ledger.schema import voucher
from ledger.schema_closing import payout_item
from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, World

DECEMBER_US = parse_period("2026-12").start_us


@pytest.fixture
def books(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 0, 1, 2)
        world.amount_uc = tab.previous.amount_uc
    with Books(world, tmp_path) as books:
        books.voucher_id = books.connection.execute(select(voucher.c.id)).scalar_one()
        books.period("2026-11", NOVEMBER_US, DECEMBER_US)
        yield books


def one(books):
    books.book.flush()
    (found,) = payables(books.connection, DECEMBER_US)
    return found


def test_parts_are_payable_when_they_are_released(books):
    net = books.close(books.voucher_id, NOVEMBER_US + 1, fee=2, held=5)
    assert payables(books.connection, DECEMBER_US) == []
    books.settle(books.voucher_id, NOVEMBER_US + 2)
    found = one(books)
    assert (found.parts, found.parts_uc, found.payable_uc) == (1, net, net)
    books.settle(books.voucher_id, NOVEMBER_US + 3, "unhold")
    found = one(books)
    assert (found.parts, found.parts_uc, found.payable_uc) == (2, net + 5, net + 5)
    assert found.worker == books.world.worker.id


def test_what_was_released_after_the_period_is_left(books):
    net = books.close(books.voucher_id, NOVEMBER_US + 1, held=5)
    books.settle(books.voucher_id, NOVEMBER_US + 2)
    books.settle(books.voucher_id, DECEMBER_US, "unhold")  # the end is not in it
    found = one(books)
    assert (found.parts, found.parts_uc, found.later_uc) == (1, net, 5)
    assert found.payable_uc == net


@pytest.mark.parametrize(
    ("state", "n_parts"),
    [
        ("prepared", 0),
        ("sending", 0),
        ("sent", 0),
        ("unresolved", 0),
        ("confirmed", 0),
        ("failed", 1),
        ("void", 1),
    ],
)
def test_a_living_payout_keeps_its_parts(books, state, n_parts):
    net = books.close(books.voucher_id, NOVEMBER_US + 1)
    books.settle(books.voucher_id, NOVEMBER_US + 2)
    part = (books.voucher_id, "net", net)
    books.pay(books.world.worker.id, NOVEMBER_US + 3, part, state=state)
    books.book.flush()
    found = payables(books.connection, DECEMBER_US)
    assert sum(each.parts for each in found) == n_parts
    assert len(books.connection.execute(select(payout_item)).all()) == 1
