"""Ranked entries, the most urgent first: a heap that stays in the processor's cache.

A heap of a quarter of a million entries costs some forty cache misses for each of them
that is ranked anew. Here entries lie unsorted in buckets by urgency; only the bucket
that is most urgent now is sorted, and taken from its end. What is pushed below it
waits in a small heap beside it, and where that grows it too goes into buckets. The
order is that of one heap of all.

Pure. An entry is a tuple whose first value is its urgency, and no two are equal before
their last value.
"""

import heapq
from collections.abc import Iterable
from typing import Generic, TypeVar

__all__ = ["RankQueue"]

_BUCKETS = 2_048  # in one unit of urgency: some hundred entries each among 250,000
# Of the heap beside; and of the current bucket, which is then sorted again some time.
_MOST_BESIDE, _SHARE_BESIDE = 1_024, 8

_Entry = TypeVar("_Entry", bound=tuple[float, *tuple[object, ...]])


class RankQueue(Generic[_Entry]):
    """A priority queue of tuples."""

    __slots__ = ("_at", "_buckets", "_n", "_order", "_run", "_side")

    def __init__(self, entries: Iterable[_Entry] = ()) -> None:
        self._at = -1
        self._buckets: dict[int, list[_Entry]] = {}
        self._order: list[int] = []  # a heap of the buckets' numbers
        self._run: list[_Entry] = []  # the current bucket, its first entry last
        self._side: list[_Entry] = []  # a heap of what was pushed at or before it
        self._n = 0
        for entry in entries:
            self.push(entry)

    def __len__(self) -> int:
        return self._n

    def push(self, entry: _Entry) -> None:
        """Add an entry."""
        self._n += 1
        at = int(entry[0] * _BUCKETS)
        if at > self._at:
            bucket = self._buckets.get(at)
            if bucket is None:
                self._buckets[at] = [entry]
                heapq.heappush(self._order, at)
            else:
                bucket.append(entry)
        elif not self._run or entry < self._run[-1]:
            self._run.append(entry)  # it was taken out just now, as a rule
        else:
            heapq.heappush(self._side, entry)
            if len(self._side) > _MOST_BESIDE + len(self._run) // _SHARE_BESIDE:
                self._spread()

    def top(self) -> _Entry | None:
        """Return the first entry, None if there is none."""
        run, side = self._run, self._side
        if side:
            return run[-1] if run and run[-1] < side[0] else side[0]
        if run or self._next_bucket():
            return self._run[-1]
        return None

    def pop(self) -> _Entry | None:
        """Take the first entry out, None if there is none."""
        run, side = self._run, self._side
        if side:
            self._n -= 1
            if run and run[-1] < side[0]:
                return run.pop()
            return heapq.heappop(side)
        if run or self._next_bucket():
            self._n -= 1
            return self._run.pop()
        return None

    def _next_bucket(self) -> bool:
        """Begin with the next bucket; return whether there was one."""
        if not self._order:
            return False
        self._at = heapq.heappop(self._order)
        self._run = self._buckets.pop(self._at)
        self._run.sort(reverse=True)
        return True

    def _spread(self) -> None:
        """Put back the current bucket, and put into buckets what waits beside it."""
        run, side = self._run, self._side
        while run and int(run[-1][0] * _BUCKETS) < self._at:
            side.append(run.pop())  # it was before all others, and is not of this one
        if run:
            self._buckets[self._at] = run
            heapq.heappush(self._order, self._at)
        self._run, self._side, self._at = [], [], -1
        self._n -= len(side)
        for entry in side:
            self.push(entry)
