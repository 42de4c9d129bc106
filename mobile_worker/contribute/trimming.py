"""Memory that was used once at the start is given back to the system.

Testing a kernel takes megabytes for a moment, and glibc's allocator keeps them for the
life of a worker that may never need as much again. Other allocators give back by
themselves.
"""

import ctypes

__all__ = ["give_back_memory"]


def give_back_memory() -> bool:
    """Give free memory of this process back; False where that is not known how."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):  # no such function, no such library
        return False
    trim(0)
    return True
