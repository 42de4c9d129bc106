"""The three presets: what holds where a limit is not set, and how gently it is kept.

quiet     one processor, 2 GB at most, on mains, 1 GB a day, gives way to other work
balanced  some processors, on a battery that is well charged too, gives way to a half
max       all of it, always: for machines that do nothing else

What the file cannot set (how nice, how warm, which share of the memory) is here, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mobile_worker.governor.limits import MIB, Limits, PowerKind, PowerRule, Preset

__all__ = ["MANNERS", "PRESETS", "UNLIMITED", "Manners", "memory_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manners:
    """How a preset is kept.

    nice: what this process takes on towards others. hot_c, warm_battery_c: from where
    it rests; it goes on 10 or 3 degrees below. ram_percent: of the machine's memory.
    minds_slowdown: whether slower kernels are taken for heat where nothing tells it.
    """

    nice: int
    hot_c: float
    warm_battery_c: float
    ram_percent: int
    minds_slowdown: bool


PRESETS: Final[Mapping[Preset, Limits]] = {
    Preset.QUIET: Limits(
        preset=Preset.QUIET,
        cpus=1,
        cpus_idle=1,
        ram_mb=2048,
        disk_mb=8192,
        up_mbit=5,
        daily_mb=1000,
        power=PowerRule(PowerKind.MAINS),
        network_any=False,
        yield_percent=25,
    ),
    Preset.BALANCED: Limits(
        preset=Preset.BALANCED,
        cpus=2,
        cpus_idle=4,
        ram_mb=8192,
        disk_mb=32_768,
        up_mbit=20,
        daily_mb=10_000,
        power=PowerRule(PowerKind.BATTERY, 60),
        network_any=False,
        yield_percent=50,
    ),
    Preset.MAX: Limits(
        preset=Preset.MAX,
        cpus=None,
        cpus_idle=None,
        ram_mb=1 << 20,
        disk_mb=262_144,
        up_mbit=None,
        daily_mb=None,
        power=PowerRule(PowerKind.ANY),
        network_any=True,
        yield_percent=None,
    ),
}
MANNERS: Final[Mapping[Preset, Manners]] = {
    Preset.QUIET: Manners(
        nice=19, hot_c=80.0, warm_battery_c=42.0, ram_percent=20, minds_slowdown=True
    ),
    Preset.BALANCED: Manners(
        nice=10, hot_c=88.0, warm_battery_c=44.0, ram_percent=40, minds_slowdown=True
    ),
    Preset.MAX: Manners(
        nice=0, hot_c=95.0, warm_battery_c=46.0, ram_percent=75, minds_slowdown=False
    ),
}
UNLIMITED: Final = PRESETS[Preset.MAX]  # what a worker has that nobody governs


def memory_of(limits: Limits, memory_bytes: int | None) -> int:
    """Return the bytes for experts on a machine of so much memory (None: unknown)."""
    asked = limits.ram_mb * MIB
    if memory_bytes is None:
        return min(asked, PRESETS[Preset.QUIET].ram_mb * MIB)
    share = memory_bytes * MANNERS[limits.preset].ram_percent // 100
    return min(asked, share)
