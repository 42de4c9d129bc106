import pytest

from ledger.prices import ONE_Q16
from p2pmoe.market.pricing.model import ModelPrices
from p2pmoe.market.pricing.report import layers_of, price_rows, reasons_of, short_q16
from tests.support.market_prices import EXPERTS, hold, model_of, share_of

EPOCH_US = 600_000_000


def looked(n: int = 60) -> ModelPrices:
    """Three domains hold the first layer, one of them gave up the first expert."""
    model = model_of()
    for domain in "abc":
        hold(model.holdings, domain, share_of(domain, *EXPERTS[:4]))
    model.paid.take((0, 1), [(e, 1 << 30) for e in EXPERTS], set(EXPERTS))
    hold(model.holdings, "c", share_of("c", *EXPERTS[1:4]), now_us=7 * 86_400_000_000)
    for epoch in range(1, n):
        model.look(epoch * EPOCH_US)
    return model


def test_the_dearest_come_first() -> None:
    rows = price_rows(looked())
    assert [row["expert"] for row in rows[:5]] == ["1/0", "1/1", "1/2", "1/3", "0/0"]
    assert rows[0]["price_uc"] == 139
    assert rows[0]["price"] == "0.000139"
    assert rows[4] == {
        "expert": "0/0",
        "price_uc": 60,
        "price": "0.000060",
        "multiplier": "0.861",
        "target": 2,
        "coverage": "2.700",
        "live": "1.800",
        "domains": 2,
        "paid_rows": 1290,
    }


def test_layers_tell_who_is_short() -> None:
    first, second = layers_of(looked())
    assert (first.n_held, first.n_short, first.least, first.mean) == (4, 0, 2700, 2700)
    assert first.held_back == 900
    assert (second.layer, second.n_experts, second.n_held, second.n_short) == (
        1,
        4,
        0,
        4,
    )


def test_each_step_of_a_price_is_told() -> None:
    model = looked()
    reasons = reasons_of(model, EXPERTS[0])
    assert reasons["live"] == "1.800"
    assert reasons["dropped_lately"] == "0.900"
    assert reasons["scarcity"] == "0.741"
    assert reasons["ideal_multiplier"] == reasons["multiplier"] == "0.861"
    assert reasons["mean_multiplier"] == "1.420"
    assert reasons["price_uc"] == 60
    assert reasons["because"] == (
        "it is held 2.700 times, wanted are 2, what was dropped lately counted"
    )
    assert reasons_of(model, EXPERTS[7])["because"] == "nobody holds it"


@pytest.mark.parametrize(
    ("domains", "because"),
    [
        ("a", "it is held 1.000 times of 2 wanted; its multiplier rises by a twentieth "
         "an epoch"),
        ("ab", "it is held as often as wanted, 2 times"),
        ("abcd", "it is held 4.000 times, wanted are 2; its multiplier falls by a "
         "twentieth an epoch"),
    ],
)  # fmt: skip
def test_the_reason_in_words(domains: str, because: str) -> None:
    model = model_of()
    for domain in domains:
        share = share_of(domain, *EXPERTS, availability=1000)
        hold(model.holdings, domain, share)
    model.look(1)
    assert reasons_of(model, EXPERTS[0])["because"] == because


def test_an_unknown_expert_has_no_price() -> None:
    with pytest.raises(KeyError):
        reasons_of(model_of(), 99)


def test_numbers_are_rounded_for_eyes() -> None:
    assert short_q16(ONE_Q16) == "1.000"
    assert short_q16(ONE_Q16 // 3) == "0.333"
    assert short_q16(ONE_Q16 * 2 - 1) == "2.000"
