"""Balances: now, as of an instant, and whose account is meant."""

import pytest

from ledger.accounts import AccountKind
from ledger.balances import balances, find_owner, workers
from ledger.errors import NotFound
from tests.support.ledger_world import NOVEMBER_US, Party


def test_balances_now_and_as_of(world, store):
    tab = world.tab(store.grant(world.order(ceiling_uc=500)).result(60))
    tab.file(store, 0)
    first = tab.previous.amount_uc
    world.now_us = NOVEMBER_US + 10
    tab.file(store, 1)
    with store.reader().session() as connection:
        now = {b.kind: b.balance_uc for b in balances(connection)}
        then = balances(connection, as_of_us=NOVEMBER_US + 10, owner=world.worker.id)
        assert balances(connection, as_of_us=NOVEMBER_US) == []
        assert balances(connection, as_of_us=NOVEMBER_US + 11) == balances(connection)
    assert sum(now.values()) == 0
    assert now[AccountKind.WORKER_PENDING] == tab.previous.amount_uc
    assert now[AccountKind.CLIENT_RESERVED] == 500 - tab.previous.amount_uc
    assert [b.balance_uc for b in then] == [first]


def test_owners_by_their_first_digits(world, store):
    store.grant(world.order()).result(60)
    backbone = world.backbone.id
    with store.reader().session() as connection:
        assert find_owner(connection, backbone.hex()[:8]) == backbone
        assert find_owner(connection, backbone.hex().upper()) == backbone
        stranger = Party("stranger").id
        assert find_owner(connection, stranger.hex()) == stranger
        assert workers(connection) == []
        for text in ("", "xyz", backbone.hex()[:6], stranger.hex()[:10]):
            with pytest.raises(NotFound):
                find_owner(connection, text)


def test_workers_in_order_of_first_earning(world, store):
    parties = [Party(f"worker {n}") for n in range(3)]
    for n, worker in enumerate(parties):
        issued = store.grant(world.order(worker=worker)).result(60)
        world.tab(issued, worker=worker, tab=b"tab-%04d" % n).file(store, 0)
    with store.reader().session() as connection:
        assert workers(connection) == [worker.id for worker in parties]
