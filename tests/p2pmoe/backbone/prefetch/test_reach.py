"""How deep layers go into their lists, learned."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.backbone.prefetch.reach import Reach

LIST = tuple(range(10, 26))  # 16 of them: one a part


def seen(*colds: set[int], n: int = 200) -> Reach:
    reach = Reach()
    for at in range(n):
        reach.saw(1, LIST, colds[at % len(colds)])
    return reach


def test_before_anything_was_seen_a_whole_list_is_worth_a_try() -> None:
    chances = Reach().within(1, 5)
    assert chances == pytest.approx([0.0, 0.0, 0.0, 0.0, 0.0, 0.8])


def test_it_learns_the_rank_of_the_last_that_is_needed() -> None:
    chances = seen({10, 12}).within(1, 16)
    assert chances[2] == pytest.approx(0.0, abs=1e-6)
    assert chances[3:] == [pytest.approx(1.0, abs=1e-6)] * 14


def test_needs_off_the_list_and_no_needs_save_nothing() -> None:
    assert seen({99}).within(1, 16)[-1] == pytest.approx(0.0, abs=1e-6)
    assert seen(set()).within(1, 16)[-1] == pytest.approx(0.0, abs=1e-6)
    half = seen({10}, {10, 99}).within(1, 16)[-1]
    assert half == pytest.approx(0.5, abs=0.05)


def test_what_was_learned_of_long_lists_holds_for_short_ones() -> None:
    reach = seen(set(LIST[:8]))
    assert reach.within(1, 4) == pytest.approx([0.0, 0.0, 1.0, 1.0, 1.0], abs=1e-6)
    assert reach.within(2, 4)[-1] == 0.8, "another layer is another matter"


@given(
    st.lists(st.tuples(st.permutations(range(8)), st.sets(st.integers(0, 9)))),
    st.integers(0, 40),
)
def test_chances_are_chances(passes: list[tuple[list[int], set[int]]], n: int) -> None:
    reach = Reach()
    for foreseen, cold in passes:
        reach.saw(1, foreseen, cold)
    chances = reach.within(1, n)
    assert len(chances) == n + 1
    assert chances == sorted(chances)
    assert chances[0] == 0.0
    assert chances[-1] <= 1.0 + 1e-9
