"""Mains or battery, its charge and its warmth, from Linux's `/sys/class/power_supply`.

A machine whose system lists supplies and no battery runs on mains; one that lists
nothing at all does, too, as servers and virtual machines do. Batteries of mice and
phones beside it (scope Device) say nothing about it. A battery that is discharged
while a charger is plugged in drains: that counts as battery (faults of BOINC: #5815). A
charge of 0 % of a machine that runs is no reading (#5305), and any supply that is
online counts as mains, whatever its type (#5570).
"""

from pathlib import Path
from typing import Final, NamedTuple

from mobile_worker.governor.readings import Power

__all__ = ["PowerReading", "read_power"]

_MAX_SUPPLIES: Final = 32
_MAX_CHARS: Final = 64
_COLDEST_C, _HOTTEST_C = -40.0, 120.0


class PowerReading(NamedTuple):
    """Where power comes from; charge (0 to 100) and degrees of the battery, if any."""

    power: Power
    battery_percent: int | None = None
    battery_c: float | None = None


class _Battery(NamedTuple):
    status: str
    percent: int | None
    celsius: float | None


def read_power(folder: Path) -> PowerReading:
    """Read the supplies in a folder like `/sys/class/power_supply`."""
    try:
        supplies = sorted(folder.iterdir())[:_MAX_SUPPLIES]
    except OSError:
        return PowerReading(Power.UNKNOWN)
    batteries, is_online, n_told = [], False, 0
    for supply in supplies:
        kind = _text(supply / "type").lower()
        if _text(supply / "scope").lower() == "device":
            continue
        n_told += bool(kind)
        if kind == "battery":
            batteries.append(_battery(supply))
        elif _text(supply / "online") == "1":
            is_online = True
    if not batteries:
        is_mains = is_online or not supplies or n_told == 0
        return PowerReading(Power.MAINS if is_mains else Power.UNKNOWN)
    return PowerReading(
        _power(batteries, is_online=is_online),
        min((b.percent for b in batteries if b.percent is not None), default=None),
        max((b.celsius for b in batteries if b.celsius is not None), default=None),
    )


def _power(batteries: list[_Battery], *, is_online: bool) -> Power:
    statuses = {battery.status for battery in batteries}
    if "discharging" in statuses:
        return Power.BATTERY
    if is_online or statuses & {"charging", "full", "not charging"}:
        return Power.MAINS
    return Power.UNKNOWN


def _battery(supply: Path) -> _Battery:
    percent, tenths = _number(supply / "capacity"), _number(supply / "temp")
    celsius = None if tenths is None else tenths / 10
    if celsius is not None and not _COLDEST_C < celsius < _HOTTEST_C:
        celsius = None
    is_percent = percent is not None and 0 < percent <= 100
    return _Battery(
        _text(supply / "status").lower(), percent if is_percent else None, celsius
    )


def _number(path: Path) -> int | None:
    text = _text(path)
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdigit() else None


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(_MAX_CHARS)
    except OSError:
        return ""
    return raw.decode("ascii", "replace").strip()
