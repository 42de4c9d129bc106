"""Sets of serving numbers as sorted inclusive ranges.

Contract: a canonical set is a tuple of (first, last) pairs, first <= last, sorted, with
a gap of at least one number between neighbours; so one set has one encoding. Pure.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

__all__ = ["Ranges", "contains", "count", "is_canonical", "subtract", "union"]

Ranges = tuple[tuple[int, int], ...]


def is_canonical(ranges: Iterable[tuple[int, int]]) -> bool:
    """Say whether the pairs are ordered, disjoint, apart, and not negative."""
    previous = -2
    for first, last in ranges:
        if first > last or first <= previous + 1 or first < 0:
            return False
        previous = last
    return True


def count(ranges: Iterable[tuple[int, int]]) -> int:
    """Return how many numbers are in the set."""
    return sum(last - first + 1 for first, last in ranges)


def contains(ranges: Sequence[tuple[int, int]], number: int) -> bool:
    """Say whether `number` is in a canonical set."""
    index = bisect_right(ranges, (number, 1 << 64)) - 1
    return index >= 0 and number <= ranges[index][1]


def union(left: Iterable[tuple[int, int]], right: Iterable[tuple[int, int]]) -> Ranges:
    """Return the canonical union of two lists of ranges, in any order."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted((*left, *right)):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def subtract(left: Ranges, right: Ranges) -> Ranges:
    """Return the numbers of the canonical set `left` that are not in `right`."""
    rest: list[tuple[int, int]] = []
    index = 0
    for first, last in left:
        at = first
        while index < len(right) and right[index][1] < at:
            index += 1
        scan = index
        while scan < len(right) and right[scan][0] <= last:
            if right[scan][0] > at:
                rest.append((at, right[scan][0] - 1))
            at = max(at, right[scan][1] + 1)
            scan += 1
        if at <= last:
            rest.append((at, last))
    return tuple(rest)
