"""Verdicts: bad and good apart, in words with numbers."""

from datetime import UTC, datetime

import pytest

from mobile_worker.governor.limit_keys import changed
from mobile_worker.governor.limits import MIB, Limits, Preset
from mobile_worker.governor.pause import Cause
from mobile_worker.governor.presets import PRESETS, UNLIMITED
from mobile_worker.governor.readings import NOTHING_KNOWN, Power, Readings
from mobile_worker.governor.rules import Moment, Verdict, judge_all, judge_use

QUIET = PRESETS[Preset.QUIET]
NOON = Moment(now=100.0, local=datetime(2026, 6, 10, 12, 0, tzinfo=UTC))
LOW = changed(QUIET, {"power": "battery>=60"})


def verdict(
    cause: Cause,
    readings: Readings = NOTHING_KNOWN,
    limits: Limits = QUIET,
    moment: Moment = NOON,
    name: str = "",
) -> Verdict:
    found = judge_all(limits, readings, moment)
    return next(v for v in found if v.name == (name or cause.value))


def on_battery(percent: int | None = 43) -> Readings:
    return Readings(power=Power.BATTERY, battery_percent=percent)


@pytest.mark.parametrize(
    ("limits", "readings", "bad", "good", "reason"),
    [
        (QUIET, on_battery(), True, False, "on battery (43 %)"),
        (QUIET, on_battery(None), True, False, "on battery"),
        (QUIET, Readings(power=Power.MAINS, battery_percent=1), False, True, ""),
        (QUIET, Readings(), False, True, ""),
        (changed(QUIET, {"assume_power": "battery"}), Readings(), True, False, "on"),
        (LOW, on_battery(59), True, False, "battery 59 % < 60 %"),
        (LOW, on_battery(60), False, False, "battery 60 % was below 60 %"),
        (LOW, on_battery(65), False, True, "battery 65 %"),
        (LOW, on_battery(None), True, False, "charge is unknown"),
        (changed(QUIET, {"power": "battery>=98"}), on_battery(100), False, True, "100"),
        (UNLIMITED, on_battery(1), False, True, ""),
    ],
)
def test_power(limits, readings, reason, *, bad: bool, good: bool) -> None:
    found = verdict(Cause.BATTERY, readings, limits)
    assert (found.is_bad, found.is_good) == (bad, good)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("readings", "bad", "good"),
    [
        (Readings(temperature_c=80.0), True, False),
        (Readings(temperature_c=75.0), False, False),
        (Readings(temperature_c=69.0), False, True),
        (Readings(battery_c=42.0), True, False),
        (Readings(battery_c=40.0, temperature_c=20.0), False, False),
        (Readings(battery_c=38.0, temperature_c=69.0), False, True),
        (Readings(), False, True),
    ],
)
def test_heat(readings: Readings, *, bad: bool, good: bool) -> None:
    found = verdict(Cause.HOT, readings)
    assert (found.is_bad, found.is_good) == (bad, good)


def test_heat_in_words() -> None:
    found = verdict(Cause.HOT, Readings(temperature_c=91.4))
    assert found.reason == "processor 91 °C, limit 80 °C"
    assert found.ends_when == "below 70 °C for a minute"


@pytest.mark.parametrize(
    ("readings", "limits", "bad"),
    [
        (Readings(slowdown=2.1), QUIET, True),
        (Readings(slowdown=2.0), QUIET, False),
        (Readings(slowdown=9.0, temperature_c=40.0), QUIET, False),
        (Readings(slowdown=9.0, others_share=0.2), QUIET, False),
        (Readings(slowdown=9.0), UNLIMITED, False),
    ],
)
def test_slower_work_is_heat_where_nothing_else_tells(readings, limits, bad) -> None:
    assert verdict(Cause.HOT, readings, limits, name="slowdown").is_bad is bad


def test_network() -> None:
    assert verdict(Cause.METERED, Readings(is_metered=True)).is_bad
    assert not verdict(Cause.METERED, Readings(is_metered=False)).is_bad
    assert not verdict(Cause.METERED).is_bad
    assumed = changed(QUIET, {"assume_network": "metered"})
    assert verdict(Cause.METERED, limits=assumed).is_bad
    assert not verdict(Cause.METERED, Readings(is_metered=True), UNLIMITED).is_bad


def test_hours_tell_when_they_begin() -> None:
    found = verdict(Cause.SCHEDULE, limits=changed(QUIET, {"hours": "22:00-07:00"}))
    assert found.is_bad
    assert found.reason == "it is 12:00, allowed are 22:00-07:00"
    assert found.ends_when == "at 22:00"
    assert found.ends_at == NOON.now + 10 * 3600
    assert not verdict(Cause.SCHEDULE).is_bad


def test_the_day_ends_at_midnight() -> None:
    moment = Moment(now=100.0, local=NOON.local, day_bytes=1000 * MIB)
    found = verdict(Cause.QUOTA, moment=moment)
    assert found.is_bad
    assert found.reason == "1000 of 1000 MB used today"
    assert found.ends_at == 100.0 + 12 * 3600
    assert not verdict(Cause.QUOTA, limits=UNLIMITED, moment=moment).is_bad


@pytest.mark.parametrize(
    ("share", "bad", "good"),
    [
        *((0.26, True, False), (0.25, False, False), (0.16, False, False)),
        *((0.14, False, True), (None, False, True)),
    ],
)
def test_other_work(share: float | None, *, bad: bool, good: bool) -> None:
    found = verdict(Cause.BUSY, Readings(others_share=share))
    assert (found.is_bad, found.is_good) == (bad, good)


def test_other_work_in_words() -> None:
    found = verdict(Cause.BUSY, Readings(others_share=0.61))
    assert found.reason == "other programs take 61 % of the processors, limit 25 %"
    assert not verdict(Cause.BUSY, Readings(others_share=1.0), UNLIMITED).is_bad


def test_idle_only() -> None:
    limits = changed(QUIET, {"idle_only": "true"})
    used = Readings(input_idle_s=12.0)
    found = verdict(Cause.BUSY, used, limits, name="idle_only")
    assert found.is_bad
    assert found.reason == "somebody used this machine 12 s ago"
    idle = Readings(input_idle_s=300.0)
    assert not verdict(Cause.BUSY, idle, limits, name="idle_only").is_bad
    assert not verdict(Cause.BUSY, limits=limits, name="idle_only").is_bad
    assert not verdict(Cause.BUSY, used, name="idle_only").is_bad


@pytest.mark.parametrize(
    ("readings", "used"),
    [
        (Readings(), True),
        (Readings(input_idle_s=900.0), True),
        (Readings(others_share=0.0), True),
        (Readings(input_idle_s=900.0, others_share=0.05), False),
        (Readings(input_idle_s=900.0, others_share=0.2), True),
        (Readings(input_idle_s=5.0, others_share=0.0), True),
    ],
)
def test_unknown_use_counts_as_use(readings: Readings, *, used: bool) -> None:
    assert judge_use(readings) is used


def test_bad_is_never_good() -> None:
    for limits in (*PRESETS.values(), LOW):
        for readings in (on_battery(), Readings(others_share=1.0, battery_c=99.0)):
            for found in judge_all(limits, readings, NOON):
                assert not (found.is_bad and found.is_good)
                assert found.reason or not found.is_bad
                assert bool(found.ends_when) == bool(found.reason)
