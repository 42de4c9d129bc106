from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.market.pricing.paid import (
    HALF_LIFE_US,
    MAX_ROWS,
    MAX_TIME_US,
    PaidDemand,
)

MINUTE_US = 60_000_000


def spans(minutes):
    return [(m * MINUTE_US, (m + 1) * MINUTE_US) for m in minutes]


@given(st.lists(st.integers(0, 30), max_size=60))
def test_a_span_counts_once_however_often_it_is_said(minutes) -> None:
    """Said as the ledger says them: oldest first, the last ten again and again."""
    paid = PaidDemand()
    for last in range(31):
        for span in spans(range(max(0, last - 9), last + 1)):
            n = minutes.count(span[0] // MINUTE_US)
            paid.take(span, [(5, n)], {5})
    assert paid.units.get(5, 0) == 256 * len(minutes)
    assert paid.counted_to_us == 31 * MINUTE_US


def test_unknown_experts_and_bad_spans_are_left_out() -> None:
    paid = PaidDemand()
    assert paid.take((0, 10), [(1, 3), (2, 4)], {1})
    assert not paid.take((9, 20), [(1, 3)], {1})
    assert not paid.take((20, 20), [(1, 3)], {1})
    assert not paid.take((20, 15), [(1, 3)], {1})
    assert not paid.take((20, MAX_TIME_US + 1), [(1, 3)], {1})  # beyond the file
    assert paid.units == {1: 3 * 256}
    assert paid.version == 1


def test_sums_halve_in_half_an_hour_and_end() -> None:
    paid = PaidDemand({1: 1 << 20, 2: 1})
    paid.fade(HALF_LIFE_US)
    assert paid.units == {1: 1 << 19}
    paid.fade(-5)
    assert paid.units == {1: 1 << 19}
    paid.fade(100 * HALF_LIFE_US)
    assert paid.units == {}


def test_sums_are_bounded() -> None:
    paid = PaidDemand()
    for at in range(3):
        paid.take((at, at + 1), [(1, (1 << 63) - 1)], {1})
    assert paid.units[1] == MAX_ROWS * 256
    assert paid.recent[1] == MAX_ROWS


def test_recent_rows_are_those_of_the_epoch() -> None:
    paid = PaidDemand()
    paid.take((0, 1), [(1, 3)], {1})
    paid.begin_epoch()
    paid.take((1, 2), [(1, 4)], {1})
    assert paid.recent == {1: 4}
    assert paid.units == {1: 7 * 256}
