"""Memory for weights in large pages, where the system has them.

Decoding streams gigabytes of weights a second through one core; with pages of 4 KiB a
good part of that time goes into looking pages up, most of all on virtual machines. A
matrix of a megabyte or two rarely covers a large page of its own, so weights of equal
size share regions of 64 MiB for which large pages are asked. It is a request: without
it, or where the system has no such pages, all works the same.

A slot whose last view has gone gives its memory back to the system at once and is the
first to be used again; the addresses stay reserved, which costs nothing. Where experts
come and go all the time, `keep_warm` lets a few bytes of free slots keep their memory,
so that the next read need not have it made anew; they keep what was in them, so nobody
may count on zeros. Anonymous memory only; no file is ever mapped here (fault B03). Safe
to use from threads: the finalizer of a view, which may run anywhere, takes no lock.
"""

import mmap
import threading
import weakref
from collections import deque
from dataclasses import dataclass
from typing import Final

import numpy as np

__all__ = ["keep_warm", "weight_room"]

_WORTH_A_SLOT: Final = 1 << 18  # bytes; less is the allocator's business
_REGION: Final = 64 << 20
_PAGE: Final = mmap.PAGESIZE  # 16 or 64 KiB on some ARM systems
_HUGE: Final = getattr(mmap, "MADV_HUGEPAGE", None)
_FORGET: Final = getattr(mmap, "MADV_DONTNEED", None)


@dataclass(frozen=True, slots=True)
class _Slot:
    region: mmap.mmap
    offset: int
    n_bytes: int


_free: Final[dict[int, deque[_Slot]]] = {}  # by the size of a slot
_growing: Final = threading.Lock()


_warm: Final[dict[_Slot, int]] = {}  # free slots that kept their memory: bytes
_most_warm = 0


def keep_warm(n_bytes: int) -> None:
    """Let free slots keep up to `n_bytes` of memory from now on."""
    global _most_warm  # noqa: PLW0603 - of the process, as the memory is
    _most_warm = n_bytes


def weight_room(n_bytes: int) -> memoryview:
    """Return `n_bytes` of writable memory, in large pages if it is large itself.

    Raises:
        MemoryError: the system has not as much.
    """
    if n_bytes >= _WORTH_A_SLOT and _HUGE is not None and _FORGET is not None:
        try:
            slot = _take(-(-n_bytes // _PAGE) * _PAGE)
        except (OSError, OverflowError):  # no such pages, or no room for a region
            return memoryview(bytearray(n_bytes))
        room = np.frombuffer(slot.region, np.uint8, n_bytes, slot.offset)
        weakref.finalize(room, _give_back, slot).atexit = False
        return room.data
    return memoryview(bytearray(n_bytes))


def _take(n_bytes: int) -> _Slot:
    """Return a free slot of a size, of a new region if there is none; OSError."""
    free = _free.setdefault(n_bytes, deque())
    while True:
        try:
            slot = free.popleft()
        except IndexError:
            with _growing:
                if not free:
                    free.extend(_new_region(n_bytes))
        else:
            _warm.pop(slot, None)
            return slot


def _new_region(n_bytes: int) -> list[_Slot]:
    n_slots = max(1, _REGION // n_bytes)
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    region = mmap.mmap(-1, n_slots * n_bytes, flags=flags)
    region.madvise(_HUGE or 0)
    return [_Slot(region, i * n_bytes, n_bytes) for i in range(n_slots)]


def _give_back(slot: _Slot) -> None:
    if sum(list(_warm.values())) + slot.n_bytes <= _most_warm:
        _warm[slot] = slot.n_bytes
    else:
        slot.region.madvise(_FORGET or 0, slot.offset, slot.n_bytes)
    _free[slot.n_bytes].appendleft(slot)
