"""How much memory this process could still take: of the machine, and of its cgroup.

Asked of the system, never guessed; what it does not tell does not bound.
"""

import mmap
from pathlib import Path

from mobile_worker.contribute.machine import this_machine

__all__ = ["free_memory", "resident_bytes"]

_PAGE = mmap.PAGESIZE
_GROUPS = Path("/sys/fs/cgroup")
_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
_V2 = ("memory.max", "memory.current")


def free_memory(
    membership: Path = Path("/proc/self/cgroup"), groups: Path = _GROUPS
) -> int | None:
    """Return the bytes that are free to this process, None if nothing says so.

    `membership` says which cgroups it is in, those of version 1 or 2 under `groups`.
    """
    found = [free for free in _in_groups(membership, groups) if free is not None]
    machine = this_machine().free_memory_bytes
    if machine is not None:
        found.append(machine)
    return max(0, min(found)) if found else None


def resident_bytes(status: Path = Path("/proc/self/statm")) -> int | None:
    """Return the bytes of memory this process takes now, None if nothing says so."""
    try:
        pages = int(status.read_text(encoding="ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return pages * _PAGE


def _in_groups(membership: Path, groups: Path) -> list[int | None]:
    """Return what is free in the memory cgroup we are in and those above it."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found: list[int | None] = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if "memory" in controllers.split(","):
            found += _up_from(groups / "memory", path, _V1)
        elif not controllers:
            found += _up_from(groups, path, _V2)
    return found


def _up_from(root: Path, path: str, names: tuple[str, str]) -> list[int | None]:
    folder = root / path.strip("/")
    folders = [folder, *folder.parents]
    folders = folders[: folders.index(root) + 1] if root in folders else [root]
    return [_free(folder, *names) for folder in folders]


def _free(folder: Path, limit: str, usage: str) -> int | None:
    """Return a group's free bytes; None without a limit."""
    try:
        return int((folder / limit).read_text()) - int((folder / usage).read_text())
    except (OSError, ValueError):  # no such group, or "max"
        return None
