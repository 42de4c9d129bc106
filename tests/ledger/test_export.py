"""Proofs and tables out of a folder."""

import csv

import pytest

from ledger.errors import DifferenceFound, NotFound
from ledger.export import CSV_COLUMNS, keys_of_tab, leaves_of, prove, transfers_csv
from ledger.leaf import Leaf
from ledger.periods import ALL_TIME, parse_period
from ledger.receipt import verify_receipt
from ledger.voucher import VoucherKey
from tests.support.ledger_world import Party


def test_every_accepted_serving_has_a_receipt_and_no_other(world, store):
    tab = world.tab(store.grant(world.order()).result(60))
    tab.file(store, 4, 5, 6)
    tab.file(store, 1, 2)
    tab.file(store, 9)
    reader = store.reader()
    with reader.session() as connection:
        (key,) = keys_of_tab(connection, tab.tab)
        for serving in (1, 2, 4, 5, 6, 9):
            receipt = prove(connection, reader.folder, key, serving)
            check = verify_receipt(
                receipt,
                network=world.network.id,
                ledger=world.ledger.id,
                market=world.market.id,
            )
            assert check.leaf == Leaf.parse(tab.leaves[serving])
        for serving in (0, 3, 7, 10):
            with pytest.raises(NotFound):
                prove(connection, reader.folder, key, serving)
        assert leaves_of(connection, reader.folder, 1) == [
            tab.leaves[s] for s in sorted(tab.leaves)
        ]
        with pytest.raises(NotFound):
            prove(connection, reader.folder, VoucherKey(b"", b"", b"", 0), 1)
    for path in reader.folder.leaves.iterdir():
        path.unlink()
    with reader.session() as connection, pytest.raises(DifferenceFound):
        prove(connection, reader.folder, key, 1)


def test_two_workers_may_have_chosen_one_tab(world, store):
    other = Party("other")
    for worker in (world.worker, other):
        issued = store.grant(world.order(worker=worker)).result(60)
        world.tab(issued, worker=worker).file(store, 0)
    with store.reader().session() as connection:
        assert len(keys_of_tab(connection, b"tab-0001")) == 2
        (key,) = keys_of_tab(connection, b"tab-0001", worker=other.id)
        assert key.worker == other.id
        assert keys_of_tab(connection, b"tab-0001", backbone=other.id) == []


def test_the_csv_sums_to_the_balances(world, store):
    tab = world.tab(store.grant(world.order()).result(60))
    tab.file(store, 0, 1)
    tab.file(store, 2)
    with store.reader().session() as connection:
        lines = list(transfers_csv(connection, ALL_TIME))
        assert list(transfers_csv(connection)) == lines
        assert list(transfers_csv(connection, parse_period("2025"))) == lines[:1]
    rows = list(csv.DictReader(lines))
    assert tuple(rows[0]) == CSV_COLUMNS
    assert [row["code"] for row in rows] == ["fund", "reserve", "earn", "earn"]
    earned = [row for row in rows if row["credit_kind"] == "worker_pending"]
    assert sum(int(row["amount_uc"]) for row in earned) == tab.previous.amount_uc
    assert {row["credit_owner"] for row in earned} == {world.worker.id.hex()}
    assert rows[0]["amount"] == "1000.000000"
    assert rows[0]["time_utc"] == "2026-11-01T00:00:00.000000Z"
    assert all("\n" not in line[:-1] for line in lines)
