"""All sensors over a fake machine; files first, programs where those do not tell."""

from pathlib import Path

import pytest
import trio

from mobile_worker.governor.outside import Outside
from mobile_worker.governor.power_supply import PowerReading
from mobile_worker.governor.readings import NOTHING_KNOWN, Power
from mobile_worker.governor.sensors import NoSensors, SystemSensors
from tests.support.machines import FakeMachine
from tests.support.trio_test import trio_test


class FixedClock:
    def __init__(self) -> None:
        self.wall_s = 1000.0

    def monotonic(self) -> float:
        return 0.0

    def wall_us(self) -> int:
        return round(self.wall_s * 1e6)


def sensors(root: Path, **told: object) -> SystemSensors:
    outside = Outside(has=lambda _: None, is_macos=False)
    for name, value in told.items():
        setattr(outside, name, value)
    return SystemSensors(clock=FixedClock(), root=root, outside=outside)


def test_files_tell(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    machine.battery(43)
    machine.zone(0, "cpu", 61_000)
    machine.route("eth0")
    machine.busy(0, of=0)
    found = sensors(tmp_path)
    found.look(0.0)
    machine.busy(20, of=40)
    readings = found.look(10.0)
    assert (readings.power, readings.battery_percent) == (Power.BATTERY, 43)
    assert readings.temperature_c == 61.0
    assert readings.is_metered is False
    assert readings.others_share == pytest.approx(0.5, abs=0.05)


def test_files_are_read_every_four_seconds(tmp_path: Path) -> None:
    machine, found = FakeMachine(tmp_path), sensors(tmp_path)
    assert found.look(0.0).power is Power.MAINS
    machine.battery(43)
    assert found.look(3.0).power is Power.MAINS
    assert found.look(4.0).power is Power.BATTERY


def test_programs_tell_what_files_do_not(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    machine.mains(online=False)
    machine.route("wlan0", wireless=True)
    found = sensors(
        tmp_path,
        power=PowerReading(Power.BATTERY, 20),
        is_metered=True,
        last_input_s=940.0,
    )
    readings = found.look(0.0)
    assert (readings.power, readings.battery_percent) == (Power.BATTERY, 20)
    assert readings.is_metered is True
    assert readings.input_idle_s == 60.0


def test_where_no_file_counts_the_load_average_stands_in(tmp_path: Path) -> None:
    found = sensors(tmp_path)
    found.load_average = lambda: (1e6, 0.0, 0.0)
    assert found.look(0.0).others_share is None
    assert found.look(10.0).others_share == 1.0
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").mkdir()  # there, and not to be read: Android
    assert found.look(20.0).others_share == 1.0


def test_nothing_known() -> None:
    assert NoSensors().look(0.0) == NOTHING_KNOWN


@trio_test(autojump=True)
async def test_programs_are_asked_once_a_minute(tmp_path: Path) -> None:
    asked: list[tuple[float, str]] = []

    class Counting(Outside):
        async def refresh(self, interface: str, wall_s: float) -> None:
            asked.append((trio.current_time(), interface))

    FakeMachine(tmp_path).route("wlan0", wireless=True)
    found = SystemSensors(clock=FixedClock(), root=tmp_path, outside=Counting())
    found.look(0.0)
    start = trio.current_time()
    with trio.move_on_after(130):
        await found.run()
    assert [round(at - start) for at, _ in asked] == [0, 60, 120]
    assert {interface for _, interface in asked} == {"wlan0"}
    await NoSensors().run()
