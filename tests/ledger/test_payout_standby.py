"""Standby pay in payouts: once, with its period's, free again where one failed."""

import pytest
from sqlalchemy import select

from ledger import payout_standby as module
from ledger.audit import verify_ledger
from ledger.explain import explain, find_transfer
from ledger.payout_list import payouts
from ledger.periods import parse_period
from ledger.schema_standby import payout_standby
from ledger.statements import statement
from tests.support.independent import ids_of, independent
from tests.support.ledger_world import DAY_US, HOUR_US, Party
from tests.support.standby_world import TERMS, book, fill_pot, paper_of, served

ADA = Party("ada")


@pytest.fixture
def store(world, tmp_path):
    with world.open(tmp_path / "books", terms=TERMS) as store:
        served(store, world, ADA)
        fill_pot(store, 10**9)
        yield store
        verify_ledger(store.reader(), world.identity)
        if not (store.folder.path / "database.url").exists():
            independent.verify(store.folder.path, ids_of(world))


def prepare(store, month):
    payee = {"worker": ADA.id.hex(), "destination": "ada"}
    answer = store.operate(
        "payout.prepare",
        {
            "period": month,
            "adapter": "bank",
            "rate": "0.0001 credits = 0.01 EUR",  # 100 micro-credits a cent
            "payees": [payee],
            "commit": True,
        },
    ).result(60)
    return answer["payouts"]


def close(store, world, month_end_us, name):
    world.now_us = month_end_us
    store.tend()
    store.operate("period.close", {"name": name}).result(60)


def test_a_month_takes_what_was_booked_in_it(store, world, monkeypatch):
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    start_us = world.now_us
    for hour in range(1, 6):
        world.now_us = start_us + hour * HOUR_US
        book(store, world, paper_of(world, ADA, pot_uc=1000))
    december_us = start_us + 30 * DAY_US
    world.now_us = december_us + HOUR_US
    book(store, world, paper_of(world, ADA, pot_uc=1000))  # in December already
    close(store, world, december_us + 2 * HOUR_US, "2026-11")
    (made,) = prepare(store, "2026-11")
    with store.reader().session() as connection:
        taken = connection.execute(select(payout_standby)).all()
        (listed,) = payouts(connection)
        told = statement(connection, ADA.id, parse_period("2026"))
        moved = find_transfer(connection, made["id"])
        explained = explain(connection, store.folder, moved)
    assert len(taken) == 5
    assert listed["parts"] == made["parts"]
    assert 0 <= told.payouts[0].rounding_uc < 100
    parts = explained.steps[-1].facts
    assert parts["standby"] == 5
    assert parts["rounding_uc"] == told.payouts[0].rounding_uc
    assert prepare(store, "2026-11") == []


def test_what_a_failed_payout_had_is_free_again(store, world):
    start_us = world.now_us
    world.now_us += HOUR_US
    book(store, world, paper_of(world, ADA, pot_uc=1000))
    close(store, world, start_us + 31 * DAY_US, "2026-11")
    (first,) = prepare(store, "2026-11")
    store.operate(
        "payout.void", {"id": first["id"], "reason": "x", "commit": True}
    ).result(60)
    (again,) = prepare(store, "2026-11")
    assert again["amount_uc"] == first["amount_uc"]
    with store.reader().session() as connection:
        taken = connection.execute(select(payout_standby)).all()
    assert len(taken) == 2


def test_who_has_nothing_has_no_parts(store):
    with store.reader().session() as connection:
        assert list(module.standby_sums(connection, before=1 << 62)) == []
        assert module.add_standby_items(connection, {}, 1 << 62) == 0
