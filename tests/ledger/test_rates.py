"""Rates: exact, rounded down for the payee, never more money than credits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import OperationRefused
from ledger.rates import Rate, format_money, parse_money


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 credit = 0.01 EUR", "1000000/1"),
        ("1 credit = 1 EUR", "10000/1"),
        ("1  credit =  0.003 EUR", "10000000/3"),
        ("1000 credits = 1.50 USD", "20000000/3"),
        ("1 credit = 1 JPY", "1000000/1"),
        ("1 credit = 0.001 KWD", "1000000/1"),
        ("0.5 credits = 0.01 EUR", "500000/1"),
    ],
)
def test_a_rate_is_micro_credits_for_a_minor_unit(text, expected):
    assert str(Rate.parse(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1 credit = 0 EUR",
        "0 credits = 1 EUR",
        "1 credit = 1e3 EUR",
        "-1 credit = 1 EUR",
        "1 credit = 1 eur",
        "1 credit = 1 EURO",
        "1 credit = \u0661 EUR",
        "1 credit = 0.000000000001 EUR; drop",
        "999999999999 credits = 0.000000000001 EUR",
        "1 credit = NaN EUR",
    ],
)
def test_no_rate(text):
    with pytest.raises(OperationRefused, match=r"^rate "):
        Rate.parse(text)


@given(
    st.integers(1, 10**9),
    st.integers(1, 10**9),
    st.integers(0, 2**63 - 1),
)
def test_nobody_gets_more_than_the_credits_are_worth(n, d, amount_uc):
    rate = Rate(n=n, d=d, currency="EUR")
    minor = rate.minor(amount_uc)
    taken = rate.credits_uc(minor)
    assert taken <= amount_uc
    assert minor * n <= taken * d  # the money is covered by what is taken
    assert (taken - 1) * d < minor * n or minor == 0  # and no more is taken
    assert (minor + 1) * n > amount_uc * d  # one more would be too much


@given(st.integers(0, 10**12), st.sampled_from(["EUR", "JPY", "KWD"]))
def test_money_is_written_and_read_exactly(minor, currency):
    assert parse_money(format_money(minor, currency), currency) == minor


def test_a_currency_that_is_none_has_cents():
    assert format_money(5, "") == format_money(5, "IF ") == "0.05"


def test_money_that_is_none():
    assert format_money(-5, "EUR") == "-0.05"
    assert parse_money("1.500", "EUR") == 150
    for text in ("", "1,50", "-1.00", "1.505", "1.", ".5", "1e2", "1 0", "9" * 19):
        with pytest.raises(OperationRefused):
            parse_money(text, "EUR")
