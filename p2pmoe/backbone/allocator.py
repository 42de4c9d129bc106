"""Keeps the C library from hoarding memory that `--ram` does not count.

glibc gives threads arenas of their own, up to eight a core, and an arena keeps what was
freed in it. Decode threads come and go, so that 75 MB would pile up with the pocket
model on two cores. Few arenas for all threads cost no speed that can be measured. Other
C libraries are left alone.
"""

import ctypes
import platform

__all__ = ["limit_arenas"]

_M_ARENA_MAX = -8  # <malloc.h>


def limit_arenas(n: int) -> bool:
    """Let this process use at most `n` arenas; False where there is no such thing."""
    if platform.libc_ver()[0] != "glibc":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_ARENA_MAX, n))
