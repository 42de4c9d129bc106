"""The set of serving numbers against a plain set."""

from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.servings.numbers import NumberSet


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 6)), max_size=40))
def test_the_same_as_a_plain_set(takes: list[tuple[int, int]]) -> None:
    numbers, plain = NumberSet(), set()
    for first, n in takes:
        wanted = set(range(first, first + n))
        assert numbers.take(first, n) == (not wanted & plain)
        if not wanted & plain:
            plain |= wanted
    assert {number for number in range(70) if number in numbers} == plain
    n_ranges = sum(1 for number in plain if number - 1 not in plain)
    assert numbers.n_ranges == n_ranges


def test_numbers_in_order_are_one_range() -> None:
    numbers = NumberSet()
    assert all(numbers.take(at, 4) for at in range(0, 4000, 4))
    assert numbers.n_ranges == 1
    assert not numbers.take(100, 1)
