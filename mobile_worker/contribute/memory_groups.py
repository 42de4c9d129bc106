"""What the memory cgroups that this process is in leave free, where there are any.

A container or a service with a memory limit has less than the machine has free, and is
killed without a word beyond it (faults B15). Versions 1 and 2, the tightest group from
ours up to the root. Cached files in a group give way when memory is needed: they count
as free. What the system does not tell does not bound.
"""

from pathlib import Path

__all__ = ["free_in_groups"]

MEMBERSHIP = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes")
V2 = ("memory.max", "memory.current")
_CACHED = {"inactive_file", "active_file", "total_inactive_file", "total_active_file"}


def free_in_groups(membership: Path = MEMBERSHIP, groups: Path = GROUPS) -> int | None:
    """Return the bytes that the tightest group leaves us, 0 or more; None without one.

    `membership` says which groups we are in, those of either version under `groups`.
    """
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found: list[int | None] = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if "memory" in controllers.split(","):
            found += _up_from(groups / "memory", path, V1)
        elif not controllers:
            found += _up_from(groups, path, V2)
    limits = [free for free in found if free is not None]
    return max(0, min(limits)) if limits else None


def _up_from(root: Path, path: str, names: tuple[str, str]) -> list[int | None]:
    folder = root / path.strip("/")
    folders = [folder, *folder.parents]
    folders = folders[: folders.index(root) + 1] if root in folders else [root]
    return [_free(folder, *names) for folder in folders]


def _free(folder: Path, limit: str, usage: str) -> int | None:
    """Return a group's free bytes; None without a limit."""
    try:
        free = int((folder / limit).read_text()) - int((folder / usage).read_text())
    except (OSError, ValueError):  # no such group, or "max"
        return None
    return free + _cached(folder)


def _cached(folder: Path) -> int:
    """Return the bytes of cached files in a group; 0 if it does not tell."""
    try:
        lines = (folder / "memory.stat").read_text().splitlines()
    except OSError:
        return 0
    fields = dict(line.split(" ", 1) for line in lines if " " in line)
    found = {name: n for name, n in fields.items() if name in _CACHED and n.isdigit()}
    whole = [n for name, n in found.items() if name.startswith("total_")]
    return sum(map(int, whole or found.values()))
