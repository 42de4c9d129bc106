"""Preparing payouts (fault B40): whole cents, each receipt once, twice is once."""

import pytest
from sqlalchemy import func, select

from ledger.errors import NotFound, OperationRefused
from ledger.payout_list import payouts
from ledger.payouts import payout_id_of
from ledger.periods import parse_period
from ledger.schema import account, transfer
from ledger.schema_closing import closing, payout, payout_event, payout_item
from tests.support.ledger_world import DAY_US, Party
from tests.support.paid_world import RATE, PaidWorld, copied, payee_rows


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    return PaidWorld(tmp_path_factory.mktemp("paid") / "ledger")


@pytest.fixture
def world(template, tmp_path):
    return copied(template, tmp_path / "ledger")


def prepare(store, world, *, commit=True, workers=None, **changes):
    params = {
        "period": "2026-11",
        "adapter": "bank",
        "rate": RATE,
        "payees": payee_rows(*(world.workers if workers is None else workers)),
        "commit": commit,
    }
    return store.operate("payout.prepare", params | changes).result(60)


def counts(store):
    with store.reader().session() as connection:
        tables = (payout, payout_item, payout_event, transfer)
        return [
            connection.execute(select(func.count()).select_from(table)).scalar_one()
            for table in tables
        ]


def available(store, worker):
    with store.reader().session() as connection:
        row = connection.execute(
            select(account).where(
                account.c.owner == worker.id, account.c.kind == "worker_available"
            )
        ).one()
        return row.credits_uc - row.debits_uc


def test_a_dry_run_says_the_same_and_changes_no_row(ledger_database):
    world = PaidWorld(ledger_database)
    with world.open(world.path) as store:
        before = counts(store)
        planned = prepare(store, world, commit=False)
        assert counts(store) == before
        done = prepare(store, world)
        assert done == planned | {"committed": True}
        assert [len(done["payouts"]), done["skipped"]] == [3, []]
        assert done["total_money"] == "0.{:02d}".format(
            sum(one["amount_minor"] for one in done["payouts"])
        )
        span = parse_period("2026-11")
        borders = span.start_us, span.end_us
        for one, worker in zip(done["payouts"], world.workers, strict=True):
            expected = payout_id_of(world.ledger.id, borders, worker.id, 1)
            assert (one["id"], one["worker"]) == (expected.hex(), worker.id.hex())
            assert one["amount_uc"] == 10 * one["amount_minor"]
            assert available(store, worker) == one["rounding_uc"] < 10
        assert counts(store) == [3, 3, 3, before[3] + 3]


def test_a_second_run_has_nothing_to_pay(world):
    with world.open(world.path) as store:
        prepare(store, world)
        before = counts(store)
        for _ in range(2):
            again = prepare(store, world)
            assert (again["payouts"], again["skipped"]) == ([], [])
        assert counts(store) == before
        with store.reader().session() as connection:
            rows = payouts(connection)
            assert {row["state"] for row in rows} == {"prepared"}
            assert [row["parts"] for row in rows] == [1, 1, 1]
            assert payouts(connection, state="sent") == []


def test_a_clock_that_went_back_changes_nothing(world):
    with world.open(world.path) as store:
        done = prepare(store, world)
    world.now_us -= 400 * DAY_US
    with world.open(world.path) as store:
        assert prepare(store, world)["payouts"] == []
        with store.reader().session() as connection:
            rows = payouts(connection)
            assert {row["prepared"] for row in rows} == {"2026-12-01T00:00:00.000000Z"}
            assert len(rows) == len(done["payouts"])


def test_two_at_once_prepare_once(world):
    """In one group of the writer: the second sees the first."""
    with world.open(world.path, window_s=0.05) as store:
        params = {"period": "2026-11", "adapter": "bank", "rate": RATE, "commit": True}
        params["payees"] = payee_rows(*world.workers)
        first = store.operate("payout.prepare", params)
        second = store.operate("payout.prepare", params)
        assert len(first.result(60)["payouts"]) == 3
        assert second.result(60)["payouts"] == []
        assert counts(store)[:3] == [3, 3, 3]


def test_who_has_no_payee_or_too_little_does_not_stop_the_others(world):
    with world.open(world.path) as store:
        done = prepare(
            store, world, workers=[world.workers[2]], rate="1 credit = 1 EUR"
        )
        reasons = [one["reason"] for one in done["skipped"]]
        assert reasons == ["less than 0.01 EUR"] * 3
        done = prepare(store, world, workers=world.workers[1:])
        assert [one["reason"] for one in done["skipped"]] == ["no payee"]
        assert done["skipped"][0]["worker"] == world.workers[0].id.hex()
        assert len(done["payouts"]) == 2
        done = prepare(store, world, workers=world.workers)
        assert len(done["payouts"]) == 1
        huge = prepare(
            store, world, rate="0.000001 credits = 999999999999 EUR", commit=False
        )
        assert huge["payouts"] == []


def test_what_was_released_later_is_of_a_later_period(world):
    with world.open(world.path) as store:
        worker = world.workers[0]
        added_uc = world.serve(store, worker, 4)
        world.now_us += 3 * DAY_US
        store.tend()
        before_uc = available(store, worker) - added_uc
        done = prepare(store, world, workers=[worker])
        (one,) = done["payouts"]
        assert one["amount_uc"] == before_uc // 10 * 10
        world.now_us = parse_period("2026-12").end_us
        store.operate("period.close", {"name": "2026-12"}).result(60)
        (late,) = prepare(store, world, workers=[worker], period="2026-12")["payouts"]
        assert late["amount_uc"] == (before_uc % 10 + added_uc) // 10 * 10
        assert late["id"] != one["id"]
        with store.reader().session() as connection:
            rows = connection.execute(select(payout_item)).all()
            assert len(rows) == len({(row.voucher_id, row.part) for row in rows}) == 2
            amounts = dict(
                connection.execute(select(closing.c.voucher_id, closing.c.net_uc)).all()
            )
            assert all(row.amount_uc == amounts[row.voucher_id] for row in rows)


def test_a_failed_or_void_payout_frees_its_parts_for_another(world):
    with world.open(world.path) as store:
        (one,) = prepare(store, world, workers=world.workers[:1])["payouts"]
        params = {"id": one["id"], "commit": True}
        store.operate("payout.void", params).result(60)
        (other,) = prepare(store, world, workers=world.workers[:1])["payouts"]
        assert (other["attempt"], other["amount_uc"]) == (2, one["amount_uc"])
        assert other["id"] != one["id"]
        assert prepare(store, world, workers=world.workers[:1])["payouts"] == []


def test_what_cannot_be_read_is_refused(world):
    with world.open(world.path) as store:
        before = counts(store)
        for changes in WRONG:
            with pytest.raises(OperationRefused):
                prepare(store, world, **changes)
        assert counts(store) == before


WRONG = [
    {"adapter": "cash"},
    {"rate": "1 credit = 0 EUR"},
    {"rate": 0.01},
    {"commit": "yes"},
    {"payees": [{"worker": "00", "destination": "x"}]},
    {"payees": payee_rows(Party("a"), Party("a"))},
    {"payees": [{"worker": "00" * 32, "destination": "x" * 141}]},
    {"payees": [{"worker": "00" * 32, "destination": "x", "iban": "DE"}]},
    {"extra": 1},
]


def test_an_open_period_is_not_paid(world):
    with world.open(world.path) as store:
        with pytest.raises(NotFound, match="2026-12 is not closed"):
            prepare(store, world, period="2026-12")
