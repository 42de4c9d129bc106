"""Micro-credits: bounds, decimals, splitting."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.amounts import check_amount, format_credits, split_by_largest_remainder
from ledger.errors import AmountRefused


@pytest.mark.parametrize("bad", [-1, 2**53, 1.0, True, "1"])
def test_amounts_out_of_bounds(bad):
    with pytest.raises(AmountRefused):
        check_amount(bad)


def test_amounts_in_bounds():
    assert check_amount(0) == 0
    assert check_amount(2**53 - 1) == 2**53 - 1


def test_decimals_are_exact():
    assert format_credits(123_456_789_012_345_678) == "123456789012.345678"
    assert format_credits(-1) == "-0.000001"
    assert format_credits(0) == "0.000000"


def test_b37_largest_remainder():
    equal = {b"c": 1, b"a": 1, b"b": 1}
    assert split_by_largest_remainder(1000, equal) == {b"a": 334, b"b": 333, b"c": 333}
    assert sorted(split_by_largest_remainder(100_000_000, equal).values()) == [
        33_333_333,
        33_333_333,
        33_333_334,
    ]
    with pytest.raises(AmountRefused):
        split_by_largest_remainder(1, {b"a": 0})
    with pytest.raises(AmountRefused):
        split_by_largest_remainder(-1, {b"a": 1})


@given(
    st.integers(0, 2**62),
    st.dictionaries(st.binary(max_size=4), st.integers(0, 2**60), min_size=1),
)
def test_b37_shares_always_sum_to_the_pool(pool, weights):
    if not sum(weights.values()):
        return
    shares = split_by_largest_remainder(pool, weights)
    assert sum(shares.values()) == pool
    total = sum(weights.values())
    for key, share in shares.items():
        assert 0 <= share - pool * weights[key] // total <= 1
