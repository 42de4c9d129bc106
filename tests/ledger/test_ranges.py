"""Ranges against plain sets."""

from hypothesis import given
from hypothesis import strategies as st

from ledger.ranges import contains, count, is_canonical, subtract, union

NUMBERS = st.sets(st.integers(0, 60))


def ranges_of(numbers: set[int]) -> tuple[tuple[int, int], ...]:
    return union([(n, n) for n in numbers], [])


def numbers_of(ranges) -> set[int]:
    return {n for first, last in ranges for n in range(first, last + 1)}


@given(NUMBERS, NUMBERS)
def test_against_sets(left, right):
    a, b = ranges_of(left), ranges_of(right)
    assert is_canonical(a)
    assert count(a) == len(left)
    assert numbers_of(union(a, b)) == left | right
    assert is_canonical(union(a, b))
    assert numbers_of(subtract(a, b)) == left - right
    assert is_canonical(subtract(a, b))
    assert all(contains(a, n) == (n in left) for n in range(62))


def test_canonical():
    assert is_canonical([])
    assert is_canonical([(0, 0), (2, 3)])
    assert not is_canonical([(0, 1), (2, 3)])
    assert not is_canonical([(3, 2)])
    assert not is_canonical([(4, 5), (0, 1)])
    assert not is_canonical([(-1, 1)])
