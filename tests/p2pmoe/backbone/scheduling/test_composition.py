"""Rows of a step: within bounds, nobody starved, all decoded while there is room."""

from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.scheduling.composition import Demand, share_rows

demands = st.lists(
    st.builds(Demand, st.sampled_from([1, 1, 1, 2, 30, 5000]), st.integers(0, 9)),
    max_size=16,
)


@given(demands, st.integers(1, 64), st.integers(1, 80))
def test_bounds(asked: list[Demand], chunk: int, most: int) -> None:
    rows = share_rows(asked, chunk_rows=chunk, max_rows=most)
    assert all(0 <= n <= own.n_pending for n, own in zip(rows, asked, strict=True))
    assert sum(rows) <= most
    prompts = [n for n, own in zip(rows, asked, strict=True) if own.n_pending > 1]
    singles = [n for n, own in zip(rows, asked, strict=True) if own.n_pending == 1]
    assert sum(prompts) <= chunk
    if asked:
        assert sum(rows) >= 1
    if prompts:
        assert prompts[0] >= 1
    if len(singles) <= most - chunk:
        assert singles == [1] * len(singles)
    free = min(chunk - sum(prompts), most - sum(rows))
    rest = sum(o.n_pending - n for n, o in zip(rows, asked, strict=True) if n != 1)
    if not singles and prompts and rest:
        assert free == 0


def test_the_oldest_prompt_has_half_and_the_shortest_the_rest() -> None:
    asked = [Demand(1), Demand(5000), Demand(900), Demand(20), Demand(1)]
    assert share_rows(asked, chunk_rows=64, max_rows=80) == [1, 32, 12, 20, 1]
    assert share_rows(asked[1:2], chunk_rows=64, max_rows=80) == [64]


def test_those_left_out_longest_come_first() -> None:
    asked = [Demand(1, 0), Demand(1, 3), Demand(1, 1)]
    assert share_rows(asked, chunk_rows=64, max_rows=2) == [0, 1, 1]


def test_a_short_step_still_has_a_row_of_a_prompt() -> None:
    asked = [Demand(1)] * 9 + [Demand(100)]
    rows = share_rows(asked, chunk_rows=64, max_rows=8)
    assert (sum(rows), rows[-1]) == (8, 2)
    assert share_rows(asked[-2:], chunk_rows=64, max_rows=1) == [0, 1]
