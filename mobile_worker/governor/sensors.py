"""All sensors of this machine as one: `look` at once, `run` for what takes longer.

Files are read when they are looked at, those of power and heat every 4 s; programs are
asked once a minute by `run`. Where a file does not tell, a program's answer stands in;
where neither does, the reading is unknown, and never guessed. `root` is `/`, or a fake
tree in tests.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

import trio

from mobile_worker.clock import Clock
from mobile_worker.governor.outside import Outside
from mobile_worker.governor.power_supply import PowerReading, read_power
from mobile_worker.governor.presence import last_input_s
from mobile_worker.governor.processors import Load, ProcessorWatch, own_seconds
from mobile_worker.governor.readings import NOTHING_KNOWN, Power, Readings
from mobile_worker.governor.route import WayOut, read_way_out
from mobile_worker.governor.thermal import read_temperature

__all__ = ["NoSensors", "Sensors", "SystemSensors"]

_FILES_S: Final = 4.0
_PROGRAMS_S: Final = 60.0
_NO_POWER: Final = PowerReading(Power.UNKNOWN)
_NO_WAY: Final = WayOut("", None)


class Sensors(Protocol):
    """Where readings come from."""

    def look(self, now: float) -> Readings:
        """Return the readings at this monotonic time; quick, never raises."""
        ...

    async def run(self) -> None:
        """Keep up to date what cannot be read at once, until cancelled."""
        ...


class NoSensors:
    """Knows nothing: for a worker that nobody governs."""

    def look(self, now: float) -> Readings:
        """Return nothing known."""
        return NOTHING_KNOWN

    async def run(self) -> None:
        """Do nothing."""


@dataclass(slots=True)
class SystemSensors:
    """The sensors of the machine whose files lie under `root`."""

    clock: Clock
    root: Path = Path("/")
    outside: Outside = field(default_factory=Outside)
    load_average: Callable[[], tuple[float, float, float]] | None = None
    _watch: ProcessorWatch = field(init=False)
    _read_at: float = float("-inf")
    _power: PowerReading = _NO_POWER
    _temperature_c: float | None = None
    _input_s: float | None = None
    _way: WayOut = _NO_WAY
    _own: tuple[float, float] | None = None

    def __post_init__(self) -> None:
        self._watch = ProcessorWatch(self.root / "proc/stat")

    def look(self, now: float) -> Readings:
        """Return the readings at this monotonic time."""
        if now - self._read_at >= _FILES_S:
            self._read_at = now
            self._read_files()
        load = self._watch.look(now) or self._average(now)
        power = self._power if self._power.power is not Power.UNKNOWN else None
        power = power or self.outside.power
        metered = self._way.is_metered
        return Readings(
            power=power.power,
            battery_percent=power.battery_percent,
            temperature_c=self._temperature_c,
            battery_c=power.battery_c,
            is_metered=self.outside.is_metered if metered is None else metered,
            others_share=load.others_share if load else None,
            own_cpus=load.own_cpus if load else None,
            input_idle_s=self._idle_s(),
        )

    async def run(self) -> None:
        """Ask programs once a minute, until cancelled."""
        while True:
            await self.ask()
            await trio.sleep(_PROGRAMS_S)

    async def ask(self) -> None:
        """Ask programs once what files do not tell."""
        asked = self._way.interface if self._way.is_metered is None else ""
        await self.outside.refresh(asked, self.clock.wall_us() / 1e6)

    def _read_files(self) -> None:
        system = self.root / "sys/class"
        self._power = read_power(system / "power_supply")
        self._temperature_c = read_temperature(system / "thermal")
        self._input_s = last_input_s(self.root / "dev")
        self._way = read_way_out(self.root / "proc/net/route", system / "net")

    def _idle_s(self) -> float | None:
        seen = [s for s in (self._input_s, self.outside.last_input_s) if s is not None]
        if not seen:
            return None
        return max(0.0, self.clock.wall_us() / 1e6 - max(seen))

    def _average(self, now: float) -> Load | None:
        """Where no file tells (macOS, Android): the load average, less our own."""
        if self._watch.is_told:
            return None
        before, self._own = self._own, (now, own_seconds())
        average = self.load_average or getattr(os, "getloadavg", None)
        if average is None or before is None or now <= before[0]:
            return None
        own_cpus = max(0.0, (self._own[1] - before[1]) / (now - before[0]))
        with suppress(OSError):
            others = (average()[0] - own_cpus) / (os.cpu_count() or 1)
            return Load(min(1.0, max(0.0, others)), own_cpus)
        return None
