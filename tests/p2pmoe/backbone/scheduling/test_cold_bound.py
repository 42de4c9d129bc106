"""The rows of a step follow what is cold: down at once, up by one."""

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.scheduling.cold_bound import ColdBound


def test_down_at_once_and_up_by_one() -> None:
    bound = ColdBound(100, 80)
    bound.observe(16, 400)
    assert bound.rows == 4
    bound.observe(4, 90)
    assert bound.rows == 5
    bound.observe(2, 10)  # rows were not short
    assert bound.rows == 5
    bound.observe(5, 10_000)
    assert bound.rows == 1


def test_without_a_limit_nothing_is_bounded() -> None:
    bound = ColdBound(None, 80)
    bound.observe(80, 10**9)
    assert bound.rows == 80


@given(st.integers(1, 500), st.integers(1, 80), st.floats(0.1, 60))
def test_it_settles_where_the_limit_is_kept(limit: int, most: int, each: float) -> None:
    """With a load in proportion to rows: what fits, one more, or back from there."""
    bound = ColdBound(limit, most)

    def cold(rows: int) -> int:
        return round(rows * each)

    for _ in range(200):
        bound.observe(bound.rows, cold(bound.rows))
        assert 1 <= bound.rows <= most
    fits = max([1, *(rows for rows in range(1, most + 1) if cold(rows) <= limit)])
    one_more = fits + 1
    back_to = one_more * limit // max(1, cold(one_more))
    assert min(fits, back_to) <= bound.rows <= one_more
