"""How many page faults a thread has had: reads of memory that was not there.

A minor fault is served from memory, a major one had to wait for the disk. The counts
are the kernel's own (getrusage, RUSAGE_THREAD, which Linux has); elsewhere all are 0.
"""

import resource

__all__ = ["thread_faults"]

_THREAD: int | None = getattr(resource, "RUSAGE_THREAD", None)


def thread_faults() -> tuple[int, int]:
    """Return the calling thread's minor and major page faults since it began."""
    if _THREAD is None:
        return 0, 0
    used = resource.getrusage(_THREAD)
    return used.ru_minflt, used.ru_majflt
