"""Flows: what moved through a worker's accounts, period by period."""

import pytest

from ledger.accounts import EXTERNAL_OWNER, AccountKind, Posting, TransferCode
from ledger.errors import DifferenceFound
from ledger.flows import WORKER_CODES, Flows, WorkerBalances, worker_flows
from ledger.periods import ALL_TIME, Period
from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, Party, World

MONTH = Period(NOVEMBER_US, NOVEMBER_US + 100)


@pytest.fixture
def books(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        tab = world.tab(store.grant(world.order()).result(60))
        tab.file(store, 0, 1, 2, 3)
        world.amount_uc = tab.previous.amount_uc
    return Books(world, tmp_path)


def test_every_kind_of_movement_is_counted_once(books):
    worker, amount_uc = books.world.worker.id, books.world.amount_uc
    with books:
        net = books.close(1, NOVEMBER_US + 10, fee=5, held=20)
        books.settle(1, NOVEMBER_US + 20)
        books.settle(1, NOVEMBER_US + 30, "unhold")
        books.period("x", 0, 1)
        books.pay(worker, NOVEMBER_US + 40, (1, "net", net), state="confirmed")
        books.post("round", worker, 3, b"k", NOVEMBER_US + 50)
        found = worker_flows(books.connection, MONTH)
        later = worker_flows(
            books.connection, Period(MONTH.end_us, MONTH.end_us + 1), worker
        )
    (flows,) = found.values()
    assert flows.opening == WorkerBalances()
    moved = {code.value: sum_uc for code, sum_uc in flows.moved.items() if sum_uc}
    assert moved == {
        "earn": amount_uc,
        "fee": 5,
        "hold": 20,
        "settle": net,
        "unhold": 20,
        "pay": net,
        "paid": net,
        "round": 3,
    }
    assert flows.closing == WorkerBalances(available_uc=17)
    assert flows.closing.total_uc == amount_uc - 5 - net - 3
    assert later[worker] == Flows(
        opening=flows.closing,
        moved=dict.fromkeys(WORKER_CODES, 0),
        closing=flows.closing,
    )


def test_b38_two_adjacent_periods_add_up_to_both(books):
    worker = books.world.worker.id
    with books:
        books.close(1, NOVEMBER_US + 10, fee=5, held=20)
        books.settle(1, NOVEMBER_US + 20, "reverse")
        books.settle(1, NOVEMBER_US + 30, "forfeit")
        for middle_us in range(NOVEMBER_US + 5, NOVEMBER_US + 60, 5):
            first, second, both = (
                worker_flows(books.connection, Period(*span))[worker]
                for span in (
                    (MONTH.start_us, middle_us),
                    (middle_us, MONTH.end_us),
                    (MONTH.start_us, MONTH.end_us),
                )
            )
            assert first.opening == both.opening
            assert first.closing == second.opening
            assert second.closing == both.closing
            assert both.moved == {
                code: first.moved[code] + second.moved[code] for code in WORKER_CODES
            }


def test_only_who_had_an_account_by_then(books):
    worker = books.world.worker.id
    with books:
        early = Period(0, NOVEMBER_US)
        assert worker_flows(books.connection, early) == {}
        assert list(worker_flows(books.connection, ALL_TIME)) == [worker]
        stranger = Party("stranger").id
        assert worker_flows(books.connection, ALL_TIME, stranger) == {}


@pytest.mark.parametrize("code", [TransferCode.FUND, TransferCode.RELEASE])
def test_cooked_books_are_a_difference_and_no_traceback(books, code):
    with books:
        posting = Posting(
            code=code,
            key=b"k",
            debit=(EXTERNAL_OWNER, AccountKind.EXTERNAL),
            credit=(books.world.worker.id, AccountKind.WORKER_HELD),
            amount_uc=1,
            reference=b"",
        )
        books.book.post(posting, NOVEMBER_US)
        books.book.flush()
        with pytest.raises(DifferenceFound, match=code.value):
            worker_flows(books.connection, ALL_TIME)
