"""How much memory this process could still take: of the machine, and of its cgroup.

Asked of the system, never guessed; what it does not tell does not bound.
"""

import mmap
from pathlib import Path

from mobile_worker.contribute.machine import this_machine
from mobile_worker.contribute.memory_groups import GROUPS, MEMBERSHIP, free_in_groups

__all__ = ["free_memory", "resident_bytes"]

_PAGE = mmap.PAGESIZE


def free_memory(membership: Path = MEMBERSHIP, groups: Path = GROUPS) -> int | None:
    """Return the bytes that are free to this process, None if nothing says so.

    `membership` says which cgroups it is in, those of version 1 or 2 under `groups`.
    """
    machine = this_machine().free_memory_bytes
    found = [free_in_groups(membership, groups), machine]
    return min((free for free in found if free is not None), default=None)


def resident_bytes(status: Path = Path("/proc/self/statm")) -> int | None:
    """Return the bytes of memory this process takes now, None if nothing says so."""
    try:
        pages = int(status.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * _PAGE
