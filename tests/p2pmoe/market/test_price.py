from ledger.prices import ONE_Q16, PriceTable, verify_price_table
from p2pmoe.market.price import DEFAULT_BASE_UC, PriceSettings, signed_prices
from relay.keys import SigningKey

MARKET = SigningKey.from_seed(bytes(range(32)))


def table_of(**changes: object) -> PriceTable:
    values = {
        "network": bytes(32),
        "manifest_hash": b"m" * 32,
        "epoch": 7,
        "base_uc": DEFAULT_BASE_UC,
    }
    return PriceTable(**(values | changes))  # type: ignore[arg-type]


def test_a_table_signed_by_the_market() -> None:
    told = table_of(multipliers={3 << 16 | 5: 2 * ONE_Q16})
    prices = signed_prices(told, MARKET.sign)
    read = verify_price_table(prices.table, prices.signature, MARKET.peer_id)
    assert read == told
    assert prices.content_hash == read.content_hash
    assert (prices.epoch, prices.base_uc) == (7, DEFAULT_BASE_UC)
    assert read.amount(3, 5, rows=4) == 8 * DEFAULT_BASE_UC
    assert read.amount(3, 6, rows=4) == 4 * DEFAULT_BASE_UC


def test_the_same_inputs_give_the_same_table() -> None:
    assert len({signed_prices(table_of(), MARKET.sign).table for _ in range(2)}) == 1


def test_nothing_is_paid_for_standing_by_unless_the_operator_says_so() -> None:
    assert PriceSettings().standby_uc == 0
