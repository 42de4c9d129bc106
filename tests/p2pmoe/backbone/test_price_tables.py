"""Price tables by epoch, on the backbone's side."""

import dataclasses

import pytest

from p2pmoe.backbone.price_tables import PriceTables
from tests.support.vouchers import MONEY, PRICES, served

LATER = MONEY.prices(epoch=2)
# Of layer 1, where expert 3 costs twice the base price of 10: 2 rows, and 1 of another.
SERVED = served(0, (3, (0, 2)), (5, (1,)))


def test_a_later_table_is_in_force_and_an_older_is_not() -> None:
    tables = PriceTables()
    assert tables.take(LATER)
    assert not tables.take(LATER)
    assert not tables.take(PRICES)
    assert (tables.current, tables.current_hash) == (LATER, LATER.content_hash)
    assert not tables.is_current(SERVED.slot)


def test_an_answer_is_bounded_by_the_dearest_and_costs_what_it_costs() -> None:
    tables = PriceTables()
    tables.take(PRICES)
    assert tables.bound_uc(SERVED.slot) == 3 * 20
    assert tables.spare_uc(SERVED) == 60 - (2 * 20 + 10)
    tables.take(LATER)
    assert tables.spare_uc(SERVED) == 0  # it was numbered at other prices


def test_at_flat_prices_nothing_is_spare() -> None:
    tables = PriceTables()
    assert tables.spare_uc(SERVED) == 0
    tables.take(dataclasses.replace(PRICES, multipliers={}))
    assert tables.bound_uc(SERVED.slot) == 30
    assert tables.spare_uc(SERVED) == 0


def test_the_last_three_and_what_is_in_use_are_kept() -> None:
    tables = PriceTables()
    all_tables = [MONEY.prices(epoch=epoch) for epoch in range(1, 9)]
    for table in all_tables:
        tables.take(table)
    restored = MONEY.prices(epoch=99, base_uc=3)
    kept = tables.prune({2}, [all_tables[3], all_tables[3], restored])
    names = {table.content_hash for table in (*all_tables[5:], restored)}
    assert kept == names | {all_tables[1].content_hash, all_tables[3].content_hash}
    assert tables.of(4) is all_tables[3]
    with pytest.raises(KeyError):
        tables.of(1)
