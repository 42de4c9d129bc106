"""Price tables as rows; multipliers are exact."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import NotFound
from ledger.price_tables import format_q16, price_rows, price_tables
from tests.support.ledger_world import World


@given(st.integers(0, 2**32 - 1))
def test_multipliers_are_exact(multiplier):
    assert Fraction(format_q16(multiplier)) == Fraction(multiplier, 1 << 16)


@pytest.mark.parametrize(
    ("multiplier", "text"),
    [(0, "0"), (1 << 16, "1"), (3 << 15, "1.5"), (1 << 14, "0.25")],
)
def test_multipliers_are_short(multiplier, text):
    assert format_q16(multiplier) == text


def test_the_tables_and_what_an_epoch_costs(tmp_path):
    world = World()
    with world.open(tmp_path) as store:
        store.grant(world.order()).result(60)
        with store.reader().session() as connection:
            (table,) = price_tables(connection)
            others, dear = price_rows(connection, 7)
            for epoch in (8, -1, 1 << 40):
                with pytest.raises(NotFound):
                    price_rows(connection, epoch)
    assert (table["epoch"], table["base_uc"], table["base"]) == (7, 10, "0.000010")
    assert table["prices"] == world.prices.content_hash.hex()
    assert table["model"] == world.manifest_hash.hex() == dear["model"]
    assert (others["expert"], others["multiplier"], others["price_uc"]) == (
        "all others",
        "1",
        10,
    )
    assert (dear["expert"], dear["multiplier"], dear["price_uc"]) == ("1/3", "1.5", 15)
