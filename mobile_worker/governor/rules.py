"""What readings mean under limits: bad, good or between, in words with numbers. Pure.

One function a cause. Bad and good lie apart, so that a reading that trembles around a
limit changes nothing; an unknown reading is good, unless the limits say what to assume.
When bad lasts and good returns is the latches' business (`policy`).
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from mobile_worker.governor.limits import MIB, Limits, PowerKind
from mobile_worker.governor.pause import Cause
from mobile_worker.governor.presets import MANNERS
from mobile_worker.governor.readings import Power, Readings

__all__ = ["Moment", "Verdict", "judge_all", "judge_use"]

_CHARGED_MORE: Final = 5  # percent points above the limit before it goes on
_COOLER_C: Final = 10.0
_COOLER_BATTERY_C: Final = 3.0
_CALMER: Final = 0.6  # of the share of others from which it rests
_IN_USE_S: Final = 300.0  # after the last input somebody still uses the machine
_LIGHT_USE: Final = 0.10  # others' share up to which nobody seems to use it
_TOO_SLOW: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When it is (monotonic seconds, and local time), and the bytes of this day."""

    now: float
    local: datetime
    day_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """How things stand for one cause; reason and end in words with numbers."""

    cause: Cause
    name: str  # of the rule: a cause may have several
    is_bad: bool
    is_good: bool
    reason: str = ""
    ends_when: str = ""
    ends_at: float | None = None


def judge_all(limits: Limits, readings: Readings, moment: Moment) -> list[Verdict]:
    """Return every rule's verdict, in the order of the causes."""
    return [
        _judge_power(limits, readings),
        _judge_heat(limits, readings),
        _judge_slowdown(limits, readings),
        _judge_network(limits, readings),
        _judge_hours(limits, moment),
        _judge_quota(limits, moment),
        _judge_load(limits, readings),
        _judge_idle_only(limits, readings),
    ]


def judge_use(readings: Readings) -> bool:
    """Whether somebody uses this machine, or may: unknown counts as in use."""
    if readings.input_idle_s is None or readings.input_idle_s < _IN_USE_S:
        return True
    return readings.others_share is None or readings.others_share > _LIGHT_USE


def _verdict(
    cause: Cause,
    *,
    bad: bool,
    good: bool | None = None,
    words: tuple[str, str] = ("", ""),
    ends_at: float | None = None,
    name: str = "",
) -> Verdict:
    return Verdict(
        cause=cause,
        name=name or cause.value,
        is_bad=bad,
        is_good=not bad if good is None else good and not bad,
        reason=words[0],
        ends_when=words[1],
        ends_at=ends_at,
    )


def _judge_power(limits: Limits, readings: Readings) -> Verdict:
    cause, rule = Cause.BATTERY, limits.power
    power = readings.power
    if power is Power.UNKNOWN:
        power = limits.assume_power or Power.UNKNOWN
    if rule.kind is PowerKind.ANY or power is not Power.BATTERY:
        return _verdict(cause, bad=False)
    percent = readings.battery_percent
    if rule.kind is PowerKind.MAINS:
        charge = "" if percent is None else f" ({percent} %)"
        return _verdict(
            cause, bad=True, words=(f"on battery{charge}", "on mains for a minute")
        )
    if percent is None:
        words = ("on battery, its charge is unknown", "on mains for a minute")
        return _verdict(cause, bad=True, words=words)
    enough = min(100, rule.percent + _CHARGED_MORE)
    sign = "<" if percent < rule.percent else "was below"
    return _verdict(
        cause,
        bad=percent < rule.percent,
        good=percent >= enough,
        words=(
            f"battery {percent} % {sign} {rule.percent} %",
            f"battery at {enough} % or on mains for a minute",
        ),
    )


def _judge_heat(limits: Limits, readings: Readings) -> Verdict:
    manners = MANNERS[limits.preset]
    parts = (
        ("processor", readings.temperature_c, manners.hot_c, _COOLER_C),
        ("battery", readings.battery_c, manners.warm_battery_c, _COOLER_BATTERY_C),
    )
    known = [(who, c, hot, hot - less) for who, c, hot, less in parts if c is not None]
    warmest = max(known, key=lambda each: each[1] - each[2], default=None)
    if warmest is None:
        return _verdict(Cause.HOT, bad=False)
    who, degrees, hot, cool = warmest
    return _verdict(
        Cause.HOT,
        bad=any(c >= limit for _, c, limit, _ in known),
        good=all(c < low for _, c, _, low in known),
        words=(
            f"{who} {degrees:.0f} °C, limit {hot:.0f} °C",
            f"below {cool:.0f} °C for a minute",
        ),
    )


def _judge_slowdown(limits: Limits, readings: Readings) -> Verdict:
    """Slower work is taken for heat only where no sensor tells and nobody is busy."""
    factor, is_told = readings.slowdown, readings.temperature_c is not None
    if factor is None or is_told or not MANNERS[limits.preset].minds_slowdown:
        return _verdict(Cause.HOT, bad=False, name="slowdown")
    is_busy = (readings.others_share or 0.0) > _LIGHT_USE
    return _verdict(
        Cause.HOT,
        name="slowdown",
        bad=factor > _TOO_SLOW and not is_busy,
        words=(
            f"computing takes {factor:.1f} times as long as at first, as in heat",
            "5 minutes of rest",
        ),
    )


def _judge_network(limits: Limits, readings: Readings) -> Verdict:
    metered = readings.is_metered
    if metered is None:
        metered = limits.assume_metered
    return _verdict(
        Cause.METERED,
        bad=bool(metered) and not limits.network_any,
        words=("this network is metered", "on an unmetered network for a minute"),
    )


def _judge_hours(limits: Limits, moment: Moment) -> Verdict:
    start = limits.hours.next_start(moment.local)
    if start is None or limits.hours.is_open(moment.local):
        return _verdict(Cause.SCHEDULE, bad=False)
    wait_s = max(0.0, start.timestamp() - moment.local.timestamp())
    return _verdict(
        Cause.SCHEDULE,
        bad=True,
        words=(
            f"it is {moment.local:%H:%M}, allowed are {limits.hours}",
            f"at {start:%H:%M}",
        ),
        ends_at=moment.now + wait_s,
    )


def _judge_quota(limits: Limits, moment: Moment) -> Verdict:
    allowed = limits.daily_bytes
    if not allowed or moment.day_bytes < allowed:
        return _verdict(Cause.QUOTA, bad=False)
    midnight = moment.local.replace(hour=0, minute=0, second=0, microsecond=0)
    wait_s = (midnight + timedelta(days=1)).timestamp() - moment.local.timestamp()
    used, most = moment.day_bytes // MIB, allowed // MIB
    return _verdict(
        Cause.QUOTA,
        bad=True,
        words=(f"{used} of {most} MB used today", "at midnight"),
        ends_at=moment.now + wait_s,
    )


def _judge_load(limits: Limits, readings: Readings) -> Verdict:
    share, percent = readings.others_share, limits.yield_percent
    if share is None or percent is None:
        return _verdict(Cause.BUSY, bad=False)
    calm = percent * _CALMER
    return _verdict(
        Cause.BUSY,
        bad=100 * share > percent,
        good=100 * share < calm,
        words=(
            f"other programs take {100 * share:.0f} % of the processors, "
            f"limit {percent} %",
            f"below {calm:.0f} % for a minute",
        ),
    )


def _judge_idle_only(limits: Limits, readings: Readings) -> Verdict:
    idle_s = readings.input_idle_s
    if not limits.idle_only or idle_s is None:
        return _verdict(Cause.BUSY, bad=False, name="idle_only")
    return _verdict(
        Cause.BUSY,
        name="idle_only",
        bad=idle_s < _IN_USE_S,
        words=(
            f"somebody used this machine {idle_s:.0f} s ago",
            f"no input for {_IN_USE_S + 60:.0f} s",
        ),
    )
