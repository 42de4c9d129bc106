"""What a contributor lets a worker use, and when: `[limits]` and `[when]` of one file.

    [limits]
    preset = "quiet"         # quiet | balanced | max: what is not said below
    cpus = 1                 # processors, or "all"
    cpus_idle = 4            # while nobody uses this machine
    ram_mb = 2048
    disk_mb = 8192
    up_mbit = 5              # megabits a second sent, or "any"
    daily_mb = 1000          # sent and received in a day, or "any"

    [when]
    power = "mains"          # mains | any | battery>=60
    network = "unmetered"    # unmetered | any
    hours = "any"            # or 22:00-07:00, several with commas
    idle_only = false        # only while nobody uses this machine
    yield_percent = 25       # rest while others take more of the processors, or "any"
    assume_power = "ask"     # mains | battery: where the machine does not tell
    assume_network = "ask"   # unmetered | metered: likewise

None stands for "all" or "any". The settings themselves, with their bounds and their
words, are in `limit_keys`; the file in `limits_file`. A value here is what is asked
for; what fits this machine is `threads_of` and `memory_of`.
"""

from dataclasses import dataclass
from enum import StrEnum

from mobile_worker.governor.hours import ANY_HOURS, Hours
from mobile_worker.governor.readings import Power

__all__ = ["MIB", "Limits", "PowerKind", "PowerRule", "Preset"]

MIB = 1 << 20


class Preset(StrEnum):
    """How much of a machine a worker takes."""

    QUIET = "quiet"
    BALANCED = "balanced"
    MAX = "max"


class PowerKind(StrEnum):
    """Which power a worker may use."""

    MAINS = "mains"
    BATTERY = "battery"  # down to a charge
    ANY = "any"


@dataclass(frozen=True, slots=True)
class PowerRule:
    """The power that a worker may use; `percent` for a battery alone."""

    kind: PowerKind
    percent: int = 0

    def __str__(self) -> str:
        """Return it as in the file."""
        if self.kind is PowerKind.BATTERY:
            return f"battery>={self.percent}"
        return self.kind.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The file's settings; None: all, any, or for what to assume: ask."""

    preset: Preset
    cpus: int | None
    cpus_idle: int | None
    ram_mb: int
    disk_mb: int
    up_mbit: int | None
    daily_mb: int | None
    power: PowerRule
    network_any: bool
    yield_percent: int | None
    hours: Hours = ANY_HOURS
    idle_only: bool = False
    assume_power: Power | None = None
    assume_metered: bool | None = None

    @property
    def disk_bytes(self) -> int:
        """Of the shard store."""
        return self.disk_mb * MIB

    @property
    def up_bytes_s(self) -> float:
        """Bytes a second sent; 0 for no limit."""
        return (self.up_mbit or 0) * 1e6 / 8

    @property
    def daily_bytes(self) -> int:
        """Sent and received from midnight to midnight; 0 for no limit."""
        return (self.daily_mb or 0) * MIB

    def threads_of(self, n_cpus: int, *, in_use: bool) -> int:
        """Return the threads to compute with on so many processors."""
        wanted = self.cpus if in_use else self.cpus_idle
        return max(1, min(n_cpus, n_cpus if wanted is None else wanted))

    def most_threads_of(self, n_cpus: int) -> int:
        """Return the threads that may ever compute at once."""
        return max(self.threads_of(n_cpus, in_use=used) for used in (True, False))
