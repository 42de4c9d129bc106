"""What this machine has, and whether the limits given fit it (faults B15).

Memory is asked of the system, never guessed: what it does not tell is None, and then
only what is certainly absurd is refused. A limit of the cgroup that we are in is one of
the machine's.
"""

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path

from mobile_worker.contribute.errors import LimitRefused
from mobile_worker.contribute.memory_groups import free_in_groups

__all__ = ["Machine", "check_limits", "default_domain", "this_machine", "usable_cpus"]

_SHARE_OF_FREE = 0.9
_MIN_MEMORY_BYTES = 4 << 20
_THREADS_A_CPU = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Bytes of memory, and processors. None: the system does not say."""

    memory_bytes: int | None
    free_memory_bytes: int | None
    n_cpus: int


def this_machine() -> Machine:
    """Look at this machine."""
    return Machine(
        memory_bytes=_pages("SC_PHYS_PAGES"),
        free_memory_bytes=_free(),
        n_cpus=usable_cpus(),
    )


def _free() -> int | None:
    found = [_available() or _pages("SC_AVPHYS_PAGES"), free_in_groups()]
    return min((free for free in found if free is not None), default=None)


def usable_cpus() -> int:
    """Return the processors that this process may use, where the system tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_limits(machine: Machine, *, memory_bytes: int, n_threads: int) -> None:
    """Refuse limits that this machine cannot keep.

    Raises:
        LimitRefused: with the figures.
    """
    if memory_bytes < _MIN_MEMORY_BYTES:
        raise LimitRefused(
            f"a memory limit of {_mib(memory_bytes)} is too little to hold experts",
            advice=f"give --memory {_MIN_MEMORY_BYTES >> 20}M or more",
        )
    free = machine.free_memory_bytes
    if free is not None and memory_bytes > _SHARE_OF_FREE * free:
        raise LimitRefused(
            f"a memory limit of {_mib(memory_bytes)} is above 90 % of the "
            f"{_mib(free)} that are free",
            advice=f"give --memory {int(_SHARE_OF_FREE * free) >> 20}M or less",
        )
    most = _THREADS_A_CPU * machine.n_cpus
    if not 1 <= n_threads <= most:
        raise LimitRefused(
            f"{n_threads} threads on {machine.n_cpus} processors",
            advice=f"give --threads from 1 to {most}",
        )


def default_domain() -> str:
    """Return a failure domain that tells this machine from others, not its name."""
    name = hashlib.sha256(socket.gethostname().encode()).hexdigest()
    return f"host-{name[:8]}"


def _mib(n_bytes: int) -> str:
    return f"{n_bytes / (1 << 20):,.1f} MiB"


def _pages(name: str) -> int | None:
    try:
        return os.sysconf(name) * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _available() -> int | None:
    try:
        with Path("/proc/meminfo").open(encoding="ascii") as file:
            for line in file:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return None
    return None
