"""The whole ledger on one page."""

import dataclasses

from ledger.overview import overview
from tests.support.books import Books
from tests.support.ledger_world import NOVEMBER_US, World


def test_everything_is_counted(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        issued = store.grant(world.order()).result(60)
        for n in range(3):
            tab = world.tab(issued, tab=b"tab-%04d" % n)
            tab.file(store, 0, 1)
            tab.file(store, 2)
        forged = dataclasses.replace(
            tab.sign(tab.previous), backbone_signature=bytes(64)
        )
        store.file(forged, b"", world.backbone.id).result(60)
        each_uc = tab.previous.amount_uc
    with Books(world, tmp_path) as books:
        net = books.close(1, NOVEMBER_US + 10, fee=5, held=10)
        books.close(2, NOVEMBER_US + 10)
        books.settle(1, NOVEMBER_US + 20)
        books.dispute(2, NOVEMBER_US + 20)
        books.period("2026-11", 0, 1)
        books.pay(world.worker.id, NOVEMBER_US + 30, (1, "net", net))
        books.checkpoint(1, NOVEMBER_US + 30)
        books.one_sided(7, NOVEMBER_US)
        found = overview(books.connection)
    assert found.debits_uc == found.credits_uc
    assert sum(found.balances_uc.values()) == 0
    assert found.balances_uc["fee"] == 5
    lines = {
        (line.what, line.state): (line.count, line.amount_uc) for line in found.lines
    }
    assert len(lines) == len(found.lines)
    assert lines["transfers", "earn"] == (6, 3 * each_uc)
    assert lines["vouchers", ""] == (3, 3 * each_uc)
    assert lines["receipts", ""] == (6, 3 * each_uc)
    assert lines["open vouchers", ""] == (1, None)
    assert lines["closed", "released"] == (1, each_uc)
    assert lines["closed", "disputed"] == (1, each_uc)
    assert lines["holdbacks", "held"] == (1, 10)
    assert lines["rejected", "signature"] == (1, None)
    assert lines["one-sided", "held"] == (1, None)
    assert lines["disputes", "open"] == (1, None)
    assert lines["payouts", "prepared"] == (1, net)
    assert lines["closed periods", ""] == (1, None)
    assert (found.first_us, found.last_us) == (NOVEMBER_US, NOVEMBER_US + 30)
    assert (found.log_size, found.checkpoint_size, found.witnesses) == (2, 1, 0)
    assert found.last_closed_period == "2026-11"


def test_a_new_ledger_has_nothing(tmp_path):
    world = World()
    world.open(tmp_path).close()
    with Books(world, tmp_path) as books:
        found = overview(books.connection)
    assert (found.debits_uc, found.log_size, found.checkpoint_size) == (0, 0, 0)
    counts = {line.what: line.count for line in found.lines}
    assert counts.pop("policies") == 1  # the terms, written when it was first opened
    assert set(counts.values()) == {0}
