"""`p2pmoe bench device`: what this machine could serve, in some five seconds.

The kernel that `contribute` would take, tested; an expert call with one row, as in
decoding; how fast shards are checked and written here; memory, processors, and what
each preset would take of them. Nothing of it is paid for: it tells what to expect.
"""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from p2pmoe.cli.asking_worker import AsJson, Data, folder_of

if TYPE_CHECKING:
    from mobile_worker.arithmetic.select import KernelChoice
    from mobile_worker.contribute.machine import Machine

__all__ = ["DeviceBench", "add_device_command", "bench_device"]

_TEST_BYTES = 32 << 20
_BLOCK_BYTES = 1 << 20
_WEIGHTS = 3 * 2048 * 768  # of one expert of a model with 128 in each layer


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceBench:
    """What was measured. disk_bytes_s: written and synced, 0 if nothing could be."""

    kernel: str
    macs_s: int
    hash_bytes_s: float
    disk_bytes_s: float
    machine: "Machine"

    @property
    def call_ms(self) -> float:
        """Milliseconds of one call with one row of such an expert, on one thread."""
        return 1e3 * _WEIGHTS / max(1, self.macs_s)

    def as_json(self) -> dict[str, object]:
        """Return the object for `--json`."""
        return {
            "kernel": self.kernel,
            "macs_per_second": self.macs_s,
            "expert_call_ms": round(self.call_ms, 3),
            "hash_bytes_per_second": round(self.hash_bytes_s),
            "disk_bytes_per_second": round(self.disk_bytes_s),
            "processors": self.machine.n_cpus,
            "free_memory_bytes": self.machine.free_memory_bytes,
            "presets": _presets(self.machine),
        }


def add_device_command(group: typer.Typer) -> None:
    """Add the command to the group `bench`."""
    group.command("device")(_device)


def bench_device(
    choice: "KernelChoice",
    folder: Path,
    machine: "Machine",
    *,
    n_bytes: int = _TEST_BYTES,
    perf_counter: Callable[[], float] = time.perf_counter,
) -> DeviceBench:
    """Measure this machine with a kernel that was chosen, writing into a folder."""
    block = os.urandom(_BLOCK_BYTES)
    n_blocks = max(1, n_bytes // _BLOCK_BYTES)
    began = perf_counter()
    digest = hashlib.sha256()
    for _ in range(n_blocks):
        digest.update(block)
    hashed = perf_counter()
    try:
        _write(folder, block, n_blocks)
        disk_s = perf_counter() - hashed
    except OSError:
        disk_s = 0.0
    n_done = n_blocks * _BLOCK_BYTES
    return DeviceBench(
        kernel=choice.name,
        macs_s=choice.rate_macs_s,
        hash_bytes_s=n_done / max(hashed - began, 1e-9),
        disk_bytes_s=n_done / disk_s if disk_s else 0.0,
        machine=machine,
    )


def _write(folder: Path, block: bytes, n_blocks: int) -> None:
    """Write and sync a file that is gone at once."""
    place = next(each for each in (folder, *folder.parents) if each.exists())
    with tempfile.TemporaryFile(dir=place) as file:
        for _ in range(n_blocks):
            file.write(block)
        file.flush()
        os.fsync(file.fileno())


def _presets(machine: "Machine") -> dict[str, dict[str, object]]:
    from mobile_worker.governor.presets import PRESETS, memory_of

    return {
        str(preset): {
            "threads": limits.threads_of(machine.n_cpus, in_use=True),
            "threads_idle": limits.threads_of(machine.n_cpus, in_use=False),
            "ram_mb": memory_of(limits, machine.memory_bytes) >> 20,
            "disk_mb": limits.disk_mb,
        }
        for preset, limits in PRESETS.items()
    }


def _device(data: Data = None, as_json: AsJson = False) -> None:
    """Measure what this machine could serve."""
    import sys

    from mobile_worker.arithmetic.candidates import kernel_candidates
    from mobile_worker.arithmetic.select import choose_kernel
    from mobile_worker.contribute.machine import this_machine
    from p2pmoe.cli.computing import wanted_kernel
    from p2pmoe.cli.sizes import format_size
    from p2pmoe.cli.tables import print_json, print_rows, print_values
    from p2pmoe.cli.waiting import Waiting

    with Waiting("measuring"):
        choice = choose_kernel(kernel_candidates(1), wanted_kernel())
        found = bench_device(choice, folder_of(data), this_machine())
    if as_json:
        print_json(found.as_json())
        return
    free = found.machine.free_memory_bytes
    rate = f"{found.macs_s / 1e9:.1f} G multiply-adds a second"
    print_values(
        {
            "kernel": f"{found.kernel}, {rate}",
            "expert call": f"{found.call_ms:.2f} ms with one row of 4.7 M weights",
            "shards": f"{found.hash_bytes_s / 1e6:.0f} MB/s checked, "
            f"{found.disk_bytes_s / 1e6:.0f} MB/s written",
            "processors": found.machine.n_cpus,
            "memory": "not told" if free is None else f"{format_size(free)} free",
        }
    )
    presets = _presets(found.machine).items()
    rows = [{"preset": name, **taken} for name, taken in presets]
    columns = ("preset", "threads", "threads_idle", "ram_mb", "disk_mb")
    print_rows(columns, rows, "What each preset would take here, at most")
    for warning in choice.warnings:
        print(warning, file=sys.stderr)
