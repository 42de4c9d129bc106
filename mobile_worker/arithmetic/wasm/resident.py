"""Copies of matrices in an instance's memory, within a budget of bytes.

A ring: a new copy goes behind the last one, and over the oldest where there is no room
left. That is quick, leaves no gaps to search and drops what was copied longest ago. The
ring grows only while the budget, shared by all instances of a kernel, lasts.

Copies are keyed by the matrices themselves, never by their place in memory, and are
forgotten with them. Used by one thread at a time, as the instance is.
"""

import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

from mobile_worker.arithmetic.matrix import Matrix
from mobile_worker.arithmetic.wasm.instance import WasmInstance

__all__ = ["Budget", "ResidentWeights"]

_ALIGNMENT: Final = 64
_LEAST_GROWTH: Final = 1 << 20


class Budget:
    """Bytes that several rings share; safe to use from threads."""

    def __init__(self, n_bytes: int) -> None:
        """Let `n_bytes` be taken."""
        self.total = n_bytes
        self._left = n_bytes
        self._lock = threading.Lock()

    def take(self, least: int, most: int) -> int:
        """Take up to `most` bytes, or 0 if not even `least` are left."""
        with self._lock:
            taken = min(most, self._left)
            if taken < least:
                return 0
            self._left -= taken
            return taken

    def give_back(self, n_bytes: int) -> None:
        """Return bytes that were taken and not used."""
        with self._lock:
            self._left += n_bytes


@dataclass(slots=True, eq=False)
class _Copy:
    key: int
    first: int  # offset in the ring
    end: int
    watch: weakref.ref[Matrix]


class ResidentWeights:
    """The ring of one instance, from the address `base` on."""

    def __init__(self, instance: WasmInstance, base: int, budget: Budget) -> None:
        """Start with an empty ring; memory is taken when it is needed."""
        self._instance = instance
        self._base = base
        self._budget = budget
        self._capacity = 0
        self._cursor = 0
        self._oldest_first: deque[_Copy] = deque()
        self._copies: dict[int, _Copy] = {}

    def find(self, matrix: Matrix) -> int | None:
        """Return the address of a matrix's copy, or None."""
        copy = self._copies.get(id(matrix))
        if copy is None or copy.watch() is not matrix:
            return None
        return self._base + copy.first

    def add(self, matrix: Matrix) -> int | None:
        """Copy a matrix and return its address; None if there is no room for it.

        May overwrite other copies: their addresses are void after this.
        """
        n_bytes = matrix.raw.nbytes
        first = self._make_room(n_bytes)
        if first is None:
            return None
        address = self._base + first
        target = self._instance.bytes[address : address + n_bytes]
        target[:] = np.frombuffer(matrix.raw, np.uint8)
        key = id(matrix)

        def forget(
            _: weakref.ref[Matrix], copies: dict[int, _Copy] = self._copies
        ) -> None:
            known = copies.get(key)
            if known is not None and known.watch() is None:
                copies.pop(key, None)

        copy = _Copy(key, first, first + n_bytes, weakref.ref(matrix, forget))
        # Found last and forgotten first: an interrupt leaves no address that is void.
        self._cursor = -(-copy.end // _ALIGNMENT) * _ALIGNMENT
        self._oldest_first.append(copy)
        self._copies[key] = copy
        return address

    def close(self) -> None:
        """Give the budget back; the instance is not used any more."""
        self._budget.give_back(self._capacity)
        self._capacity = 0
        self._copies.clear()
        self._oldest_first.clear()

    def _make_room(self, n_bytes: int) -> int | None:
        """Return the offset of a place for so many bytes, emptied of older copies."""
        if self._cursor + n_bytes > self._capacity and not self._grow(n_bytes):
            if n_bytes > self._capacity:
                return None
            self._drop_from(self._cursor)
            self._cursor = 0
        end = self._cursor + n_bytes
        while self._oldest_first and self._cursor <= self._oldest_first[0].first < end:
            self._drop_oldest()
        return self._cursor

    def _grow(self, n_bytes: int) -> bool:
        """Let `n_bytes` fit behind the cursor, if the budget and the memory allow."""
        if self._oldest_first and self._oldest_first[0].first >= self._cursor:
            return False  # the ring went round: what is behind the cursor is in use
        missing = self._cursor + n_bytes - self._capacity
        taken = self._budget.take(missing, max(missing, _LEAST_GROWTH))
        if not taken:
            return False
        if not self._instance.reserve(self._base + self._capacity + taken):
            self._budget.give_back(taken)
            return False
        self._capacity += taken
        return True

    def _drop_from(self, offset: int) -> None:
        while self._oldest_first and self._oldest_first[0].first >= offset:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        oldest = self._oldest_first[0]
        if self._copies.get(oldest.key) is oldest:
            self._copies.pop(oldest.key, None)
        self._oldest_first.popleft()
