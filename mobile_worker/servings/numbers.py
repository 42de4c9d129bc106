"""A growing set of serving numbers, kept as ranges; each number goes in once.

Numbers arrive nearly in order, so that the set is one range with a few holes, and a
check costs a binary search.
"""

from bisect import bisect_right

__all__ = ["NumberSet"]


class NumberSet:
    """Which numbers have been used."""

    def __init__(self) -> None:
        """Start empty."""
        self._firsts: list[int] = []
        self._lasts: list[int] = []

    @property
    def n_ranges(self) -> int:
        """Number of separate ranges."""
        return len(self._firsts)

    def take(self, first: int, n: int) -> bool:
        """Add `n` numbers from `first`; False, and no change, if one is in already."""
        last = first + n - 1
        at = bisect_right(self._firsts, last)
        if at and self._lasts[at - 1] >= first:
            return False
        joins_left = at > 0 and self._lasts[at - 1] == first - 1
        joins_right = at < len(self._firsts) and self._firsts[at] == last + 1
        if joins_left and joins_right:
            self._lasts[at - 1] = self._lasts.pop(at)
            del self._firsts[at]
        elif joins_left:
            self._lasts[at - 1] = last
        elif joins_right:
            self._firsts[at] = first
        else:
            self._firsts.insert(at, first)
            self._lasts.insert(at, last)
        return True

    def __contains__(self, number: int) -> bool:
        """Say whether the number is in the set."""
        at = bisect_right(self._firsts, number)
        return at > 0 and self._lasts[at - 1] >= number
