"""The governor: a person's wishes beside the policy's, none overwriting another."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio

from mobile_worker.governor.errors import LimitsRefused
from mobile_worker.governor.governor import Governor, GovernorParts, local_time
from mobile_worker.governor.limit_keys import changed
from mobile_worker.governor.limits import Preset
from mobile_worker.governor.limits_file import read_limits
from mobile_worker.governor.pause import Cause
from mobile_worker.governor.presets import PRESETS
from mobile_worker.governor.readings import Power, Readings
from mobile_worker.governor.remembered import Remembered
from tests.support.trio_test import trio_test

QUIET = PRESETS[Preset.QUIET]
START = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)
FINE = Readings(power=Power.MAINS, is_metered=False, others_share=0.0)


class HandClock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def wall_us(self) -> int:
        return round((START + timedelta(seconds=self.now)).timestamp() * 1e6)


class FakeSensors:
    def __init__(self) -> None:
        self.readings = FINE
        self.n_looks = 0

    def look(self, now: float) -> Readings:
        self.n_looks += 1
        return self.readings

    async def run(self) -> None:
        await trio.sleep_forever()


class World:
    def __init__(self, folder: Path | None = None, *, is_hub: bool = False) -> None:
        self.clock, self.sensors = HandClock(), FakeSensors()
        self.folder = folder
        record = Remembered(folder / "governor.json" if folder else None)
        self.governor = Governor(
            GovernorParts(
                clock=self.clock,
                limits=QUIET,
                limits_file=folder / "limits.toml" if folder else None,
                record=record,
                sensors=self.sensors,
                n_cpus=4,
                is_hub=is_hub,
                local=lambda us: datetime.fromtimestamp(us / 1e6, UTC),
            )
        )

    def causes(self, now: float) -> list[Cause]:
        self.clock.now = now
        return [pause.cause for pause in self.governor.tick().pauses]


def test_sensors_are_looked_at_every_two_seconds() -> None:
    world = World()
    for quarter in range(17):
        world.causes(quarter / 4)
    assert world.sensors.n_looks == 3


def test_a_persons_pause_and_the_policys_are_independent() -> None:
    world = World()
    world.governor.pause(None)
    world.sensors.readings = replace(FINE, power=Power.BATTERY)
    assert world.causes(0.0) == [Cause.USER, Cause.BATTERY]
    world.sensors.readings = FINE
    world.causes(10.0)
    assert world.causes(80.0) == [Cause.USER]
    world.governor.resume()
    assert world.causes(80.25) == []


def test_resuming_overrides_once_what_else_holds() -> None:
    world = World()
    world.sensors.readings = replace(FINE, power=Power.BATTERY)
    assert world.causes(0.0) == [Cause.BATTERY]
    world.governor.resume()
    assert world.causes(0.25) == []
    assert world.causes(900.0) == []
    world.sensors.readings = FINE
    world.causes(910.0)
    world.causes(980.0)
    world.sensors.readings = replace(FINE, power=Power.BATTERY)
    assert world.causes(990.0) == [Cause.BATTERY]


def test_a_pause_for_half_an_hour_says_when_it_ends() -> None:
    world = World()
    world.governor.pause(1800.0)
    world.causes(0.0)
    pause = world.governor.decision.pauses[0]
    assert pause.ends_when == "at 12:30, or when it is resumed"
    assert pause.ends_at == 1800.0
    assert world.causes(1799.0) == [Cause.USER]
    assert world.causes(1800.0) == []


def test_a_pause_outlives_a_restart(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.governor.pause(None)
    world.governor.save()
    again = World(tmp_path)
    assert again.causes(0.0) == [Cause.USER]


def test_changed_limits_are_written_and_hold_at_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.sensors.readings = replace(FINE, power=Power.BATTERY)
    assert world.causes(0.0) == [Cause.BATTERY]
    limits = changed(QUIET, {"power": "any", "cpus": "3"})
    world.governor.set_limits(limits)
    assert world.causes(0.25) == []
    assert world.governor.decision.n_threads == 3
    assert world.governor.limits == limits == read_limits(tmp_path / "limits.toml")


def test_limits_that_cannot_be_written_do_not_hold(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "limits.toml.new").mkdir()
    with pytest.raises(LimitsRefused):
        world.governor.set_limits(changed(QUIET, {"power": "any"}))
    assert world.governor.limits == QUIET


def test_a_hub_has_no_rules_of_power() -> None:
    world = World(is_hub=True)
    world.sensors.readings = replace(FINE, power=Power.BATTERY, battery_percent=1)
    assert world.causes(0.0) == []
    assert world.governor.limits == QUIET


def test_bytes_count_towards_the_day_and_its_end(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.causes(0.0)
    world.governor.spent(up_bytes=600 << 20)
    world.governor.fetched(400 << 20)
    assert world.governor.rates() == ((600 << 20) / 10, (400 << 20) / 10)
    assert world.causes(2.0) == [Cause.QUOTA]
    assert not world.governor.may_fetch()
    world.clock.now = 20.0
    assert world.governor.rates() == (0.0, 0.0)
    world.governor.save()
    again = World(tmp_path)
    assert again.causes(10.0) == [Cause.QUOTA]
    again.causes(12 * 3600.0 + 1)
    assert again.causes(12 * 3600.0 + 62) == []
    assert again.governor.may_fetch()


def test_slower_calls_halve_the_work_and_a_rest_forgets_them() -> None:
    world = World()
    for _ in range(32):
        world.governor.computed(1 << 20, 1000)
    for _ in range(40):
        world.governor.computed(1 << 20, 1700)
    world.causes(0.0)
    world.causes(10.0)
    assert world.governor.decision.duty == 0.5
    for _ in range(400):
        world.governor.computed(1 << 20, 3000)
    assert world.causes(12.0) == [Cause.HOT]
    assert world.governor.watch.factor(12.0) is None


def test_local_time_is_the_machines() -> None:
    assert local_time(0).timestamp() == 0


@trio_test(autojump=True)
async def test_what_is_to_be_kept_is_written_now_and_then(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.governor.pause(None)
    with trio.move_on_after(31):
        await world.governor.run()
    assert Remembered(tmp_path / "governor.json").paused_until(0) == 0
