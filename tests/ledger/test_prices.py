"""The price table: canonical bytes, rounding, the market's signature."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import AmountRefused, FormatRefused, SignatureRefused
from ledger.prices import (
    ONE_Q16,
    PRICE_HEAD_BYTES,
    PriceTable,
    read_base_uc,
    sign_price_table,
    verify_price_table,
)
from tests.support.ledger_world import World

TABLES = st.builds(
    PriceTable,
    network=st.binary(min_size=32, max_size=32),
    manifest_hash=st.binary(min_size=32, max_size=32),
    epoch=st.integers(0, 2**32 - 1),
    base_uc=st.integers(0, 2**53 - 1),
    multipliers=st.dictionaries(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)),
)


@given(TABLES)
def test_round_trip(table):
    raw = table.pack()
    again = PriceTable.parse(raw)
    assert again == table
    assert again.pack() == raw
    assert hash(again) == hash(table)


def test_order_of_making_does_not_matter():
    world = World()
    one = dataclasses.replace(world.prices, multipliers={5: 1, 2: 3})
    other = dataclasses.replace(world.prices, multipliers={2: 3, 5: 1, 9: ONE_Q16})
    assert one.content_hash == other.content_hash
    with pytest.raises(TypeError):
        one.multipliers[1] = 1


def test_unit_prices_round_down():
    prices = World(base_uc=5).prices
    assert prices.unit_price(1, 3) == 7  # 5 * 1.5
    assert prices.unit_price(1, 4) == 5
    assert prices.amount(1, 3, 3) == 21
    dear = dataclasses.replace(prices, base_uc=2**52)
    with pytest.raises(AmountRefused):
        dear.amount(0, 0, 3)


def test_other_bytes_are_refused():
    raw = dataclasses.replace(World().prices, multipliers={1: 2, 3: 4}).pack()
    rows = raw[-16:-8], raw[-8:]
    for bad in (
        raw[:-1],
        raw + b"\0",
        raw[:-16] + rows[1] + rows[0],  # not sorted
        raw[:-16] + rows[0] + rows[0],  # one expert twice
        raw[:-4] + ONE_Q16.to_bytes(4, "big"),  # the default, spelled out
        b"XMPT" + raw[4:],
        raw[:4] + b"\x02" + raw[5:],
        b"",
    ):
        with pytest.raises(FormatRefused):
            PriceTable.parse(bad)


def test_bounds():
    for changes in (
        {"network": b""},
        {"epoch": -1},
        {"multipliers": {-1: 1}},
        {"multipliers": {1: 2**32}},
    ):
        with pytest.raises(FormatRefused):
            dataclasses.replace(World().prices, **changes)
    with pytest.raises(AmountRefused):
        dataclasses.replace(World().prices, base_uc=-1)


def test_only_the_markets_signature_counts():
    world = World()
    raw = world.prices.pack()
    signature = sign_price_table(raw, world.market.sign)
    assert verify_price_table(raw, signature, world.market.id) == world.prices
    for bytes_, key in ((raw, world.ledger.id), (raw[:-1] + b"\1", world.market.id)):
        with pytest.raises(SignatureRefused):
            verify_price_table(bytes_, signature, key)


def test_the_base_price_is_read_from_the_head_alone():
    table = PriceTable(
        network=bytes(32),
        manifest_hash=bytes(32),
        epoch=1,
        base_uc=77,
        multipliers={3: 1 << 15},
    )
    assert read_base_uc(table.pack()[:PRICE_HEAD_BYTES]) == 77
    for raw in (b"", table.pack()[: PRICE_HEAD_BYTES - 1], b"x" * PRICE_HEAD_BYTES):
        with pytest.raises(FormatRefused):
            read_base_uc(raw)
