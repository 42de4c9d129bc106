"""What a process uses of its machine, read from /proc."""

import dataclasses
from pathlib import Path

import pytest

__all__ = ["Footprint", "footprint"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Resident bytes now, open sockets and threads of one process."""

    resident_bytes: int
    n_sockets: int
    n_threads: int


def footprint(pid: int) -> Footprint:
    """Return what a process uses now; skips where there is no /proc."""
    folder = Path(f"/proc/{pid}")
    if not folder.exists():
        pytest.skip("needs /proc")
    lines = (folder / "status").read_text(encoding="ascii").splitlines()
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    return Footprint(
        resident_bytes=int(status["VmRSS"].split()[0]) * 1024,
        n_sockets=_n_sockets(folder / "fd"),
        n_threads=int(status["Threads"]),
    )


def _n_sockets(folder: Path) -> int:
    n = 0
    for entry in folder.iterdir():
        try:
            n += str(entry.readlink()).startswith("socket:")
        except FileNotFoundError:
            continue
    return n
