"""Memory that was used once at the start is given back to the system.

Testing a kernel takes some 10 MB for a moment, and glibc's allocator keeps them for the
life of a worker that may never need as much again: it gives back what is free in its
main arena alone, so threads are told to share that one. The engine that compiles the
wasm module is as large, in pages of its library's file that are not needed again: they
are let go (`MADV_PAGEOUT` drops nothing that cannot be read again). Other systems do
without.
"""

import ctypes
from pathlib import Path
from typing import Final

__all__ = ["give_back_memory", "let_go_of_library", "share_one_arena"]

_M_ARENA_MAX: Final = -8  # of glibc's malloc.h
_MADV_PAGEOUT: Final = 21  # of Linux's mman.h, since 5.4
_MAX_LINES: Final = 20_000


def share_one_arena() -> bool:
    """Have all threads allocate from one arena; before there are any others."""
    setting = _function("mallopt")
    return setting is not None and bool(setting(_M_ARENA_MAX, 1))


def give_back_memory() -> bool:
    """Give free memory of this process back; False where that is not known how."""
    trim = _function("malloc_trim")
    if trim is None:
        return False
    trim(0)
    return True


def let_go_of_library(name: str, maps: Path = Path("/proc/self/maps")) -> int:
    """Let go of the code of libraries with `name` in theirs; return its bytes."""
    advise = _function("madvise")
    if advise is None:
        return 0
    advise.argtypes = (ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int)
    n_bytes = 0
    for start, end in _code_of(name, maps):
        if advise(start, end - start, _MADV_PAGEOUT) == 0:
            n_bytes += end - start
    return n_bytes


def _code_of(name: str, maps: Path) -> list[tuple[int, int]]:
    """Return where the code of such libraries lies in memory."""
    try:
        lines = maps.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    found = []
    for line in lines[:_MAX_LINES]:
        fields = line.split(maxsplit=5)
        if len(fields) < 6 or fields[1] != "r-xp":
            continue
        if name in fields[5].rpartition("/")[2]:
            start, _, end = fields[0].partition("-")
            found.append((int(start, 16), int(end, 16)))
    return found


def _function(name: str) -> "ctypes._NamedFuncPointer | None":
    try:
        found: ctypes._NamedFuncPointer = getattr(ctypes.CDLL(None), name)
    except (AttributeError, OSError, TypeError):  # no such function, no such library
        return None
    return found
