"""What a process holds in memory and what it has read, as the system tells it.

From /proc where that is (Linux), else from getrusage, which knows faults alone; what
nobody tells is 0. `parse_*` are pure.
"""

import resource
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "ProcessCounts",
    "ProcessFigures",
    "parse_io",
    "parse_status",
    "process_counts",
    "process_figures",
]


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """Faults, and bytes from the disk, since the process was started."""

    minor_faults: int = 0
    major_faults: int = 0
    read_bytes: int = 0

    def since(self, earlier: "ProcessCounts") -> "ProcessCounts":
        """Return what came after `earlier`."""
        return ProcessCounts(
            self.minor_faults - earlier.minor_faults,
            self.major_faults - earlier.major_faults,
            max(0, self.read_bytes - earlier.read_bytes),
        )


@dataclass(frozen=True, slots=True)
class ProcessFigures:
    """Bytes in memory, of address space and in swap; faults and bytes since its start.

    A major fault waited for the disk. `read_bytes` came from the disk, read-ahead
    included.
    """

    resident_bytes: int = 0
    virtual_bytes: int = 0
    swap_bytes: int = 0
    minor_faults: int = 0
    major_faults: int = 0
    read_bytes: int = 0

    def after(self, earlier: "ProcessFigures") -> "ProcessFigures":
        """Return this with the counts of `earlier` lives added."""
        return ProcessFigures(
            self.resident_bytes,
            self.virtual_bytes,
            self.swap_bytes,
            self.minor_faults + earlier.minor_faults,
            self.major_faults + earlier.major_faults,
            self.read_bytes + earlier.read_bytes,
        )


def process_counts() -> ProcessCounts:
    """Return the counts of this process, which take some microseconds to get."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    n_bytes = parse_io(_text("/proc/self/io")).get("read_bytes", 0)
    return ProcessCounts(usage.ru_minflt, usage.ru_majflt, n_bytes)


def process_figures() -> ProcessFigures:
    """Return all figures of this process."""
    counts = process_counts()
    status = parse_status(_text("/proc/self/status"))
    return ProcessFigures(
        status.get("VmRSS", 0),
        status.get("VmSize", 0),
        status.get("VmSwap", 0),
        counts.minor_faults,
        counts.major_faults,
        counts.read_bytes,
    )


def parse_status(text: str) -> dict[str, int]:
    """Return the sizes of /proc/PID/status in bytes."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 3 and words[2] == "kB" and words[1].isdigit():
            found[words[0].rstrip(":")] = int(words[1]) * 1024
    return found


def parse_io(text: str) -> dict[str, int]:
    """Return the counters of /proc/PID/io."""
    found = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if value.strip().isdigit():
            found[key] = int(value)
    return found


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
