"""Registers: every transfer of an account, with a balance that runs on."""

import pytest

from ledger.account_register import opening_balance, register_lines
from ledger.accounts import AccountKind
from ledger.balances import balances
from ledger.errors import NotFound
from ledger.periods import ALL_TIME, Period
from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, World

PENDING = AccountKind.WORKER_PENDING


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    path = tmp_path_factory.mktemp("ledger")
    world = World()
    with world.open(path) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        for n in range(4):
            world.now_us = NOVEMBER_US + n
            tab.file(store, n)
    books = Books(world, path)
    with books:
        books.close(1, NOVEMBER_US + 10, fee=5, held=3)
        books.settle(1, NOVEMBER_US + 20)
    return books


def lines_of(books, period, kind=PENDING):
    with books.reader().session() as connection:
        return list(register_lines(connection, books.world.worker.id, kind, period))


def test_the_balance_runs_to_the_accounts(books):
    worker = books.world.worker.id
    lines = lines_of(books, ALL_TIME)
    assert [line.code for line in lines] == ["earn"] * 4 + ["fee", "hold", "settle"]
    running = 0
    for line in lines:
        running += line.amount_uc
        assert line.balance_uc == running
    with books.reader().session() as connection:
        held = {
            line.kind: line.balance_uc for line in balances(connection, owner=worker)
        }
    assert lines[-1].balance_uc == held[PENDING] == 0
    assert lines[0].other_kind == "client_reserved"
    assert lines[0].other_owner == books.world.backbone.id
    assert lines_of(books, ALL_TIME, AccountKind.WORKER_HELD)[-1].balance_uc == 3


def test_b38_adjacent_registers_continue_each_other(books):
    border = NOVEMBER_US + 2
    first = lines_of(books, Period(0, border))
    second = lines_of(books, Period(border, ALL_TIME.end_us))
    assert first + second == lines_of(books, ALL_TIME)
    with books.reader().session() as connection:
        worker = books.world.worker.id
        period = Period(border, border + 1)
        opening = opening_balance(connection, worker, PENDING, period)
    assert opening == first[-1].balance_uc


def test_no_such_account(books):
    with pytest.raises(NotFound, match="no account rounding"):
        lines_of(books, ALL_TIME, AccountKind.ROUNDING)
