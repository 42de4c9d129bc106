"""What `p2pmoe contribute` may use: the worker's limits, met with its options.

The limits file of the worker's folder holds; `--preset`, `--threads`, `--memory` and
`--disk` change it for this run. Where a limit needs to know what this machine does not
tell (mains or battery, whether traffic costs), a person at a terminal is asked once and
the answer is written into the file; nobody there means that it does not limit.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from mobile_worker.contribute.machine import Machine
    from mobile_worker.governor.limits import Limits
    from mobile_worker.governor.readings import Readings

__all__ = [
    "Asked",
    "Budget",
    "ask_unknown",
    "budget_of",
    "first_readings",
    "limits_line",
    "unknown_of",
]

_SHARE_OF_FREE = 0.8  # of the memory that is free, where none was asked for
_MAX_CPUS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The options of a run; None: as the file says.

    is_hub: a machine that does nothing else, so max where neither names a preset.
    """

    is_hub: bool = False
    preset: str | None = None
    memory: str | None = None
    disk: str | None = None
    threads: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The limits of this run, and what they come to on this machine."""

    limits: "Limits"
    memory_bytes: int
    disk_bytes: int
    n_threads: int


def budget_of(folder: Path, here: "Machine", asked: Asked) -> Budget:
    """Return what a worker with this folder may use.

    Raises:
        LimitsRefused: the file or the preset.
        LimitRefused: more than this machine can keep.
        ConfigurationError: a size that is none.
    """
    from mobile_worker.contribute.machine import check_limits
    from mobile_worker.governor.limit_keys import changed
    from mobile_worker.governor.limits_file import LIMITS_FILE, read_limits
    from p2pmoe.cli.sizes import parse_size

    file = folder / LIMITS_FILE
    limits, preset = read_limits(file), asked.preset
    if preset is None and asked.is_hub and not file.exists():
        preset = "max"
    if preset is not None:
        limits = changed(limits, {"preset": preset})
    n_threads = limits.most_threads_of(here.n_cpus)
    if asked.threads is not None:
        n_threads = asked.threads
        both = str(max(1, min(n_threads, _MAX_CPUS)))
        limits = changed(limits, {"cpus": both, "cpus_idle": both})
    if asked.memory is None:
        memory_bytes = _memory(limits, here)
    else:
        memory_bytes = parse_size(asked.memory, option="--memory")
    disk_bytes = limits.disk_bytes
    if asked.disk is not None:
        disk_bytes = parse_size(asked.disk, option="--disk")
    check_limits(here, memory_bytes=memory_bytes, n_threads=n_threads)
    return Budget(
        limits=limits,
        memory_bytes=memory_bytes,
        disk_bytes=disk_bytes,
        n_threads=n_threads,
    )


def _memory(limits: "Limits", here: "Machine") -> int:
    """Return the memory for experts where none was asked for."""
    from mobile_worker.governor.presets import memory_of

    free = here.free_memory_bytes
    wanted = memory_of(limits, here.memory_bytes)
    return wanted if free is None else min(wanted, int(_SHARE_OF_FREE * free))


def first_readings() -> "Readings":
    """Look once at all sensors of this machine."""
    import trio

    from mobile_worker.clock import SystemClock
    from mobile_worker.governor.sensors import SystemSensors

    clock = SystemClock()
    sensors = SystemSensors(clock=clock)
    sensors.look(clock.monotonic())

    trio.run(sensors.ask)
    return sensors.look(clock.monotonic())


def unknown_of(limits: "Limits", readings: "Readings") -> tuple[str, ...]:
    """Return which settings would tell what the limits need and no sensor does."""
    from mobile_worker.governor.limits import PowerKind
    from mobile_worker.governor.readings import Power

    found = []
    is_needed = limits.power.kind is not PowerKind.ANY and limits.assume_power is None
    if is_needed and readings.power is Power.UNKNOWN:
        found.append("assume_power")
    is_needed = not limits.network_any and limits.assume_metered is None
    if is_needed and readings.is_metered is None:
        found.append("assume_network")
    return tuple(found)


def ask_unknown(
    budget: Budget, file: Path, unknown: tuple[str, ...], *, asks: bool
) -> "Limits":
    """Ask what no sensor tells, write the answers down, and return the limits."""
    from mobile_worker.governor.limit_keys import changed
    from mobile_worker.governor.limits_file import read_limits, write_limits

    limits = budget.limits
    for name in unknown:
        question, yes, no, line = _QUESTIONS[name]
        if not asks:
            print(f"{line}: p2pmoe limits set {name}={no}", file=sys.stderr)
            continue
        answer = yes if typer.confirm(question, default=True, err=True) else no
        limits = changed(limits, {name: answer})
        write_limits(file, changed(read_limits(file), {name: answer}))
    return limits


def limits_line(limits: "Limits") -> str:
    """Return in a line when a worker of these limits works."""
    parts = [f"preset {limits.preset}", f"power {limits.power}"]
    parts.append(f"network {'any' if limits.network_any else 'unmetered'}")
    if limits.hours.spans:
        parts.append(f"hours {limits.hours}")
    if limits.daily_mb is not None:
        parts.append(f"{limits.daily_mb} MB a day")
    if limits.yield_percent is not None:
        parts.append(f"rests while others take {limits.yield_percent} % of it")
    return ", ".join(parts)


_QUESTIONS = {
    "assume_power": (
        "This machine does not tell whether it is on mains. Is it?",
        "mains",
        "battery",
        "  power   not told by this machine, so it limits nothing; if on battery",
    ),
    "assume_network": (
        "It does not tell whether its network costs by the byte. Is it free of that?",
        "unmetered",
        "metered",
        "  network may cost by the byte, and this machine does not tell; if it does",
    ),
}
