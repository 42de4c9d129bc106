from ledger.prices import PriceTable, verify_price_table
from p2pmoe.market.price import DEFAULT_BASE_UC, flat_prices
from relay.keys import SigningKey

MARKET = SigningKey.from_seed(bytes(range(32)))


def test_a_flat_table_signed_by_the_market() -> None:
    prices = flat_prices(
        bytes(32), b"m" * 32, epoch=7, base_uc=DEFAULT_BASE_UC, sign=MARKET.sign
    )
    table = verify_price_table(prices.table, prices.signature, MARKET.peer_id)
    assert isinstance(table, PriceTable)
    assert (table.epoch, table.manifest_hash) == (7, b"m" * 32)
    assert table.amount(3, 5, rows=4) == 4 * DEFAULT_BASE_UC


def test_the_same_inputs_give_the_same_table() -> None:
    tables = {
        flat_prices(bytes(32), bytes(32), epoch=1, base_uc=5, sign=MARKET.sign).table
        for _ in range(2)
    }
    assert len(tables) == 1
