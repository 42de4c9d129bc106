"""A memory cgroup of our own, for tests and benchmarks that need a small machine.

`memory_group(limit)` makes one below the root or, where that is not ours to write to,
below the group that we are in; version 1 where the memory controller is still there,
else version 2. Swap is refused to what runs in it. A page of a file counts for the
group that touched it first, so `drop_cached` what is to be read anew. When the context
ends, what still runs in the group is killed and the group removed; one whose maker was
killed is removed by the next that is made.
"""

import contextlib
import os
import signal
import subprocess
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

__all__ = [
    "MemoryGroup",
    "MemoryUse",
    "NoGroups",
    "drop_cached",
    "memory_group",
    "memory_group_or_skip",
]

_V1, _V2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")
_ENTER = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
_GONE_S = 10.0


class NoGroups(Exception):
    """This machine gives us no memory cgroup; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryUse:
    """Bytes charged to a group: in all, at most so far, by kind, and in swap.

    `failures` counts how often the limit was met, which page cache does all the time.
    """

    used: int
    peak: int
    anonymous: int
    cached: int
    swapped: int
    failures: int


class MemoryGroup:
    """One group that exists; see `memory_group`."""

    def __init__(self, folder: Path, *, is_v1: bool) -> None:
        self.folder = folder
        self._is_v1 = is_v1

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs `words` in the group."""
        return ["/bin/sh", "-c", _ENTER, str(self.folder), *words]

    def use(self) -> MemoryUse:
        """Return what is charged to the group now."""
        stat = self._table("memory.stat")
        if self._is_v1:
            return MemoryUse(
                used=self._number("memory.usage_in_bytes"),
                peak=self._number("memory.max_usage_in_bytes"),
                anonymous=stat.get("total_rss", 0),
                cached=stat.get("total_cache", 0),
                swapped=stat.get("total_swap", 0),
                failures=self._number("memory.failcnt"),
            )
        return MemoryUse(
            used=self._number("memory.current"),
            peak=self._number("memory.peak"),
            anonymous=stat.get("anon", 0),
            cached=stat.get("file", 0),
            swapped=self._number("memory.swap.current"),
            failures=self._table("memory.events").get("max", 0),
        )

    def pids(self) -> list[int]:
        """Return the processes in the group."""
        return [int(word) for word in self._read("cgroup.procs").split()]

    def limit(self, n_bytes: int) -> None:
        """Set the limit; OSError where it cannot be."""
        if self._is_v1:
            self._write("memory.limit_in_bytes", n_bytes)
            with contextlib.suppress(OSError):
                self._write("memory.swappiness", 0)
        else:
            self._write("memory.max", n_bytes)
            with contextlib.suppress(OSError):
                self._write("memory.swap.max", 0)

    def remove(self) -> None:
        """Kill what runs in it, and remove it."""
        end = time.monotonic() + _GONE_S
        while True:
            for pid in self.pids():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.02)
            else:
                return

    def _read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="ascii")

    def _write(self, name: str, value: int) -> None:
        (self.folder / name).write_text(str(value), encoding="ascii")

    def _number(self, name: str) -> int:
        try:
            return int(self._read(name))
        except (FileNotFoundError, ValueError):  # an older kernel tells less
            return 0

    def _table(self, name: str) -> dict[str, int]:
        try:
            lines = self._read(name).splitlines()
        except FileNotFoundError:
            return {}
        return {key: int(value) for key, value in map(str.split, lines)}


@contextmanager
def memory_group(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Have a group with a limit for as long as the context lasts; NoGroups."""
    group = _made(limit_bytes)
    try:
        yield group
    finally:
        group.remove()


@contextmanager
def memory_group_or_skip(limit_bytes: int) -> Iterator[MemoryGroup]:
    """Do as `memory_group`, or skip the test where there is none."""
    try:
        group = _made(limit_bytes)
    except NoGroups as error:
        pytest.skip(f"no memory cgroup of our own here: {error}")
    try:
        yield group
    finally:
        group.remove()


def drop_cached(path: Path) -> None:
    """Have the system forget what it holds of a file, so that no group has it free."""
    subprocess.run(["sync", str(path)], check=True)
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _made(limit_bytes: int) -> MemoryGroup:
    reasons = ["the system has none"]
    name = f"p2pmoe-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    for parent, is_v1 in _parents():
        for folder in parent.glob("p2pmoe-*-*"):
            if not Path(f"/proc/{folder.name.split('-')[1]}").exists():
                MemoryGroup(folder, is_v1=is_v1).remove()
        group = MemoryGroup(parent / name, is_v1=is_v1)
        try:
            group.folder.mkdir()
        except OSError as error:
            reasons.append(str(error))
            continue
        try:
            group.limit(limit_bytes)
        except OSError as error:  # the controller is not handed down to here
            reasons.append(str(error))
            group.folder.rmdir()
            continue
        return group
    raise NoGroups(reasons[-1])


def _parents() -> Sequence[tuple[Path, bool]]:
    """Return where a group may be made, and whether it is one of version 1."""
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    own = {}
    for line in lines:
        _, controllers, path = line.split(":", 2)
        own.update(dict.fromkeys(controllers.split(","), path.lstrip("/")))
    if "memory" in own and _V1.is_dir():
        return [(_V1, True), (_V1 / own["memory"], True)]
    return [(_V2, False), (_V2 / own.get("", ""), False)]
