"""Income by worker, backbone, day, layer and expert; sums agree."""

import pytest
from sqlalchemy import insert

from ledger.errors import DifferenceFound, FormatRefused
from ledger.income import IncomeBy, base_prices, earnings, income
from ledger.periods import ALL_TIME, Period
from ledger.prices import PriceTable
from ledger.schema import price_table
from tests.support.books import Books
from tests.support.ledger_world import DAY_US, NOVEMBER_US, Party, World


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """Two workers, two backbones, three days, two price epochs."""
    path = tmp_path_factory.mktemp("ledger")
    world = World()
    world.parties = [Party("worker 1"), Party("worker 2")]
    world.backbones = [world.backbone, Party("backbone 2")]
    with world.open(path) as store:
        for day in range(3):
            world.now_us = NOVEMBER_US + day * DAY_US + DAY_US - 1
            for n, worker in enumerate(world.parties):
                for backbone in world.backbones:
                    order = world.order(worker=worker, backbone=backbone)
                    tab = world.tab(
                        store.grant(order).result(60),
                        worker=worker,
                        backbone=backbone,
                        tab=b"tab-%d-%02d" % (n, day),
                    )
                    tab.file(store, *range(day, day + n + 1))
    return Books(world, path)


def test_earnings_by_worker_backbone_and_prices(books):
    with books.reader().session() as connection:
        found = earnings(connection, ALL_TIME)
        mine = earnings(connection, ALL_TIME, books.world.parties[0].id)
        assert earnings(connection, Period(0, NOVEMBER_US)) == []
    assert len(found) == 4
    assert {each.vouchers for each in found} == {3}
    assert [each for each in found if each.worker == books.world.parties[0].id] == mine
    assert {each.price_table_hash for each in found} == {
        books.world.prices.content_hash
    }


@pytest.mark.parametrize("by", ["worker", "backbone", "day"])
def test_sums_by_anything_are_the_sum_of_all(books, by):
    with books.reader().session() as connection:
        lines = income(connection, IncomeBy(by), ALL_TIME)
        everything = earnings(connection, ALL_TIME)
    for name in ("servings", "rows", "amount_uc"):
        assert sum(getattr(line, name) for line in lines) == sum(
            getattr(each, name) for each in everything
        )
    if by != "day":
        assert [line.amount_uc for line in lines] == sorted(
            (line.amount_uc for line in lines), reverse=True
        )


def test_b38_days_are_utc_days_to_the_microsecond(books):
    worker = books.world.parties[1].id
    with books.reader().session() as connection:
        lines = income(connection, IncomeBy.DAY, ALL_TIME, worker)
        first = income(
            connection, IncomeBy.DAY, Period(NOVEMBER_US, NOVEMBER_US + DAY_US), worker
        )
    assert [line.name for line in lines] == ["2026-11-01", "2026-11-02", "2026-11-03"]
    assert [line.servings for line in lines] == [4, 4, 4]
    assert first == lines[:1]


def test_experts_are_of_closed_vouchers(books):
    with books:
        at_us = NOVEMBER_US + 9 * DAY_US
        books.close(1, at_us)
        books.experts(1, (0, 5, 2, 20, 200), (1, 2, 1, 7, 70), (10, 0, 1, 1, 1))
        books.close(2, at_us)
        books.experts(2, (1, 2, 1, 3, 30), (1, 0, 1, 1, 10))
        by_expert = income(books.connection, IncomeBy.EXPERT, ALL_TIME)
        by_layer = income(books.connection, IncomeBy.LAYER, ALL_TIME)
        before = income(books.connection, IncomeBy.LAYER, Period(0, at_us))
        mine, other = (
            income(books.connection, IncomeBy.LAYER, ALL_TIME, worker.id)
            for worker in books.world.parties
        )
    assert [
        (line.name, line.servings, line.rows, line.amount_uc) for line in by_expert
    ] == [
        ("0/5", 2, 20, 200),
        ("1/0", 1, 1, 10),
        ("1/2", 2, 10, 100),
        ("10/0", 1, 1, 1),
    ]
    assert [(line.name, line.amount_uc) for line in by_layer] == [
        ("0", 200),
        ("1", 110),
        ("10", 1),
    ]
    assert before == []
    assert [line.amount_uc for line in mine + other if line.name == "1"] == [110]


def test_base_prices_and_what_is_no_price_table(books):
    world = books.world
    known = world.prices.content_hash
    with books:
        assert base_prices(books.connection, {known}) == {known: 10}
        assert base_prices(books.connection, set()) == {}
        with pytest.raises(DifferenceFound, match="1 price tables"):
            base_prices(books.connection, {known, bytes(32)})
        row = {"hash": b"x" * 32, "epoch": 1, "manifest_hash": bytes(32)}
        row |= {"raw": b"?", "signature": b"?", "seen_us": 0}
        books.connection.execute(insert(price_table), [row])
        with pytest.raises(FormatRefused):
            base_prices(books.connection, {b"x" * 32})


def test_only_the_head_of_a_table_is_read(books):
    """A table of a large model has 100,000 rows; a month has thousands of tables."""
    large = PriceTable(
        network=books.world.network.id,
        manifest_hash=bytes(32),
        epoch=1,
        base_uc=77,
        multipliers=dict.fromkeys(range(5000), 5),
    )
    row = {"hash": b"y" * 32, "epoch": 1, "manifest_hash": bytes(32)}
    row |= {"raw": large.pack(), "signature": b"?", "seen_us": 0}
    with books:
        books.connection.execute(insert(price_table), [row])
        assert base_prices(books.connection, {b"y" * 32}) == {b"y" * 32: 77}
