"""Memory for weights in large pages, where the system has them.

Decoding streams gigabytes of weights a second through one core; with pages of 4 KiB a
good part of that time goes into looking pages up, most of all on virtual machines. So
weights of a megabyte and more get a mapping of their own for which large pages are
asked. It is a request: without it, or where the system has none, all works the same.

The memory is zeros at first and goes back to the system when its last view goes.
Anonymous memory only; no file is ever mapped here (fault B03).
"""

import mmap
from typing import Final

__all__ = ["weight_room"]

_WORTH_A_MAPPING: Final = 1 << 20  # bytes; less than half a large page gains nothing
_HUGE: Final = getattr(mmap, "MADV_HUGEPAGE", None)


def weight_room(n_bytes: int) -> memoryview:
    """Return `n_bytes` of writable memory, in large pages if it is large itself.

    Raises:
        MemoryError: the system has not as much.
    """
    if _HUGE is not None and n_bytes >= _WORTH_A_MAPPING:
        try:
            room = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            room.madvise(_HUGE)
            return memoryview(room)
        except (OSError, OverflowError):  # no such pages, or too many mappings
            pass
    return memoryview(bytearray(n_bytes))
