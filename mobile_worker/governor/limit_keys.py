"""Each setting of the limits: its name, its table, its words and what it may be. Pure.

One table serves the file, `p2pmoe limits` and `p2pmoe limits set`: what one takes the
others take, and what one says the others say. A value is text here, as a person writes
it; the file's numbers and booleans are read as their text.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from mobile_worker.governor.errors import LimitsRefused
from mobile_worker.governor.hours import parse_hours
from mobile_worker.governor.limits import Limits, PowerKind, PowerRule, Preset
from mobile_worker.governor.presets import PRESETS
from mobile_worker.governor.readings import Power

__all__ = ["LIMIT_KEYS", "LimitKey", "changed", "rows"]

_MAX_SHOWN: Final = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitKey:
    """One setting. read: raises ValueError for what it cannot be."""

    name: str
    table: str
    meaning: str
    may_be: str
    read: Callable[[Limits, str], Limits]
    show: Callable[[Limits], str]


def changed(limits: Limits, values: Mapping[str, str]) -> Limits:
    """Return limits with these settings; a preset first, whatever the order.

    A new preset changes what was as the old one had it, and leaves the rest.

    Raises:
        LimitsRefused: a name that is none, or a value that it cannot have.
    """
    for name in sorted(values, key=lambda each: (each != "preset", each)):
        key = LIMIT_KEYS.get(name)
        if key is None:
            raise LimitsRefused(
                f"{name[:_MAX_SHOWN]!r} is no limit",
                advice=f"there are {', '.join(LIMIT_KEYS)}",
            )
        try:
            limits = key.read(limits, values[name].strip())
        except ValueError as error:
            raise LimitsRefused(
                f"{name} cannot be {values[name][:_MAX_SHOWN]!r}",
                advice=f"it may be {key.may_be}",
            ) from error
    return limits


def rows(limits: Limits) -> tuple[tuple[str, str, str], ...]:
    """Return each setting with its value and one line on what it means."""
    return tuple(
        (key.name, key.show(limits), key.meaning) for key in LIMIT_KEYS.values()
    )


def _with_preset(limits: Limits, text: str) -> Limits:
    before, after = PRESETS[limits.preset], PRESETS[Preset(text)]
    kept: dict[str, Any] = {
        name: getattr(limits, name)
        for name in Limits.__dataclass_fields__
        if name != "preset" and getattr(limits, name) != getattr(before, name)
    }
    return replace(after, **kept)


def _with(limits: Limits, field: str, value: object) -> Limits:
    change: dict[str, Any] = {field: value}
    return replace(limits, **change)


def _number(
    field: str, least: int, most: int, none: str = ""
) -> tuple[Callable[[Limits, str], Limits], Callable[[Limits], str], str]:
    """Return how a whole number is read and shown, and what it may be."""

    def read(limits: Limits, text: str) -> Limits:
        if none and text == none:
            return _with(limits, field, None)
        if not (text.isascii() and text.isdigit() and len(text) <= len(str(most))):
            raise ValueError(text)
        if not least <= int(text) <= most:
            raise ValueError(text)
        return _with(limits, field, int(text))

    def show(limits: Limits) -> str:
        value = getattr(limits, field)
        return none if value is None else str(value)

    may_be = f"a whole number from {least} to {most}"
    return read, show, f'{may_be}, or "{none}"' if none else may_be


def _choice(
    field: str, choices: Mapping[str, object]
) -> tuple[Callable[[Limits, str], Limits], Callable[[Limits], str], str]:
    """Return how one of some words is read and shown, and what it may be."""

    def read(limits: Limits, text: str) -> Limits:
        if text not in choices:
            raise ValueError(text)
        return _with(limits, field, choices[text])

    def show(limits: Limits) -> str:
        value = getattr(limits, field)
        return next(word for word, choice in choices.items() if choice == value)

    return read, show, " or ".join(choices)


def _read_power(limits: Limits, text: str) -> Limits:
    kind, separator, percent = text.replace(" ", "").partition(">=")
    if not separator and kind in {PowerKind.MAINS, PowerKind.ANY}:
        return replace(limits, power=PowerRule(PowerKind(kind)))
    digits = percent.isascii() and percent.isdigit() and len(percent) <= 3
    if kind != PowerKind.BATTERY or not digits or not 1 <= int(percent) <= 100:
        raise ValueError(text)
    return replace(limits, power=PowerRule(PowerKind.BATTERY, int(percent)))


_Entry = tuple[Callable[[Limits, str], Limits], Callable[[Limits], str], str]


def _key(name: str, table: str, meaning: str, entry: _Entry) -> LimitKey:
    read, show, may_be = entry
    return LimitKey(
        name=name,
        table=table,
        meaning=meaning,
        may_be=may_be,
        read=read,
        show=show,
    )


_PRESET: Final[_Entry] = (
    _with_preset,
    lambda limits: limits.preset.value,
    " or ".join(Preset),
)
_POWER: Final[_Entry] = (
    _read_power,
    lambda limits: str(limits.power),
    "mains, any or battery>=PERCENT",
)
_HOURS: Final[_Entry] = (
    lambda limits, text: replace(limits, hours=parse_hours(text)),
    lambda limits: str(limits.hours),
    "any or spans like 22:00-07:00,12:30-13:30",
)
_YES_NO: Final = {"false": False, "true": True}
_POWERS: Final = {"ask": None, "mains": Power.MAINS, "battery": Power.BATTERY}
_METERED: Final = {"ask": None, "unmetered": False, "metered": True}
_ALL: Final = (
    _key("preset", "limits", "what holds where nothing is set", _PRESET),
    _key(
        "cpus",
        "limits",
        "processors that compute",
        _number("cpus", 1, 256, "all"),
    ),
    _key(
        "cpus_idle",
        "limits",
        "processors that compute while nobody uses this machine",
        _number("cpus_idle", 1, 256, "all"),
    ),
    _key(
        "ram_mb",
        "limits",
        "memory for experts, in MiB; a preset's share of the machine at most",
        _number("ram_mb", 4, 1 << 24),
    ),
    _key(
        "disk_mb",
        "limits",
        "disk for shards, in MiB; from the next start on",
        _number("disk_mb", 1, 1 << 30),
    ),
    _key(
        "up_mbit",
        "limits",
        "megabits a second sent",
        _number("up_mbit", 1, 100_000, "any"),
    ),
    _key(
        "daily_mb",
        "limits",
        "MiB sent and received from midnight to midnight",
        _number("daily_mb", 1, 1 << 24, "any"),
    ),
    _key("power", "when", "the power it may use", _POWER),
    _key(
        "network",
        "when",
        "the network it may use",
        _choice("network_any", {"unmetered": False, "any": True}),
    ),
    _key("hours", "when", "the hours it may work, local time", _HOURS),
    _key(
        "idle_only",
        "when",
        "work only while nobody uses this machine",
        _choice("idle_only", _YES_NO),
    ),
    _key(
        "yield_percent",
        "when",
        "rest while others take more than this of all processors",
        _number("yield_percent", 1, 100, "any"),
    ),
    _key(
        "assume_power",
        "when",
        "what to take for true where the machine does not tell its power",
        _choice("assume_power", _POWERS),
    ),
    _key(
        "assume_network",
        "when",
        "what to take for true where it does not tell whether traffic costs",
        _choice("assume_metered", _METERED),
    ),
)
LIMIT_KEYS: Final[Mapping[str, LimitKey]] = {key.name: key for key in _ALL}
