"""Every receipt in exactly one state, each for a reason that can be told."""

import pytest

from ledger.periods import ALL_TIME, Period
from ledger.receipt_states import receipts, unfiled_receipts, why_sentence
from tests.support.ledger_world import NOVEMBER_US
from tests.support.receipt_ways import WAYS, books_of_every_way


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    return books_of_every_way(tmp_path_factory.mktemp("ledger"))


@pytest.mark.parametrize("n", range(len(WAYS)), ids=[way[0] for way in WAYS])
def test_each_way_ends_in_its_state(books, n):
    with books.reader().session() as connection:
        lines = receipts(connection, worker=books.world.worker.id)
    _, state, why = WAYS[n]
    of_tab = [
        (line.state, line.why)
        for line in lines
        if line.tab == b"tab-%04d" % n and line.why != "signature"
    ]
    assert set(of_tab) == {(state, why)}
    assert len(of_tab) == (3 if n == len(WAYS) - 1 else 1)


def test_those_that_came_into_no_account(books):
    with books.reader().session() as connection:
        lines = unfiled_receipts(connection, Period(0, NOVEMBER_US + 1))
        assert unfiled_receipts(connection, Period(0, NOVEMBER_US)) == []
    assert sorted(line.why for line in lines) == [
        "expired",
        "format",
        "one-sided",
        "signature",
    ]


def test_every_state_says_why(books):
    with books.reader().session() as connection:
        lines = receipts(connection)
    sentences = {(line.state, line.why): why_sentence(line) for line in lines}
    assert all(sentences.values())
    assert sentences["pending", "window"].endswith("until 2026-11-01T00:00:00.001010Z")
    assert sentences["held", "holdback"].endswith("until 2026-11-01T00:00:00.009010Z")
    assert sentences["rejected", "signature"].startswith("refused: ")
    assert not any(
        "refused" in text
        for key, text in sentences.items()
        if key[1] != "signature" and key[1] != "format"
    )


def test_the_first_so_many_are_the_beginning_of_all(books):
    with books.reader().session() as connection:
        for worker in (None, books.world.worker.id):
            everything = receipts(connection, worker=worker)
            for most in (0, 1, 5, len(everything), 1000):
                some = receipts(connection, worker=worker, most=most)
                assert some == everything[:most]


def test_a_reason_that_is_none_steers_nothing(books):
    with books:
        point = books.connection.begin_nested()
        books.connection.exec_driver_sql("update rejected set reason = 'x\x1b[2J'")
        found = {line.why for line in unfiled_receipts(books.connection, ALL_TIME)}
        point.rollback()
    assert found == {"unknown", "one-sided", "expired"}
