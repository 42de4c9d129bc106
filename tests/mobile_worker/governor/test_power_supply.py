"""Power by fake files: laptops, servers, chargers that do not keep up, bad readings."""

from pathlib import Path

import pytest

from mobile_worker.governor.power_supply import PowerReading, read_power
from mobile_worker.governor.readings import Power
from tests.support.machines import FakeMachine


def reading(machine: FakeMachine) -> PowerReading:
    return read_power(machine.root / "sys/class/power_supply")


def test_a_machine_without_supplies_is_on_mains(tmp_path: Path) -> None:
    assert reading(FakeMachine(tmp_path)) == PowerReading(Power.MAINS)


def test_a_system_that_lists_none_is_unknown(tmp_path: Path) -> None:
    assert read_power(tmp_path / "nowhere") == PowerReading(Power.UNKNOWN)


@pytest.mark.parametrize(
    ("status", "online", "power"),
    [
        ("Discharging", False, Power.BATTERY),
        ("Charging", True, Power.MAINS),
        ("Full", True, Power.MAINS),
        ("Not charging", True, Power.MAINS),
        # A charger that does not keep up drains the battery all the same.
        ("Discharging", True, Power.BATTERY),
        # Power by pins that no supply tells of.
        ("Charging", False, Power.MAINS),
        ("Unknown", True, Power.MAINS),
        ("Unknown", False, Power.UNKNOWN),
    ],
)
def test_a_laptop(tmp_path: Path, status: str, *, online: bool, power: Power) -> None:
    machine = FakeMachine(tmp_path)
    machine.battery(43, status)
    machine.mains(online=online)
    assert reading(machine) == PowerReading(power, 43)


def test_any_supply_that_is_online_is_mains(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    machine.battery(90, "Unknown")
    machine.supply("pogo", type="USB", online=1)
    assert reading(machine).power is Power.MAINS


def test_the_battery_of_a_mouse_is_not_this_machines(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    machine.supply(
        "hid", type="Battery", scope="Device", status="Discharging", capacity=9
    )
    assert reading(machine) == PowerReading(Power.MAINS)


def test_a_desktop_with_a_supply_that_is_off_is_unknown(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    machine.mains(online=False)
    assert reading(machine).power is Power.UNKNOWN


@pytest.mark.parametrize("capacity", ["0", "101", "-1", "x", "", "9" * 60])
def test_a_charge_that_cannot_be_is_no_reading(tmp_path: Path, capacity: str) -> None:
    machine = FakeMachine(tmp_path)
    machine.supply("BAT0", type="Battery", status="Discharging", capacity=capacity)
    assert reading(machine) == PowerReading(Power.BATTERY, None)


def test_the_lowest_charge_and_the_warmest_battery_count(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    machine.supply("BAT0", type="Battery", status="Full", capacity=80, temp=301)
    machine.supply("BAT1", type="Battery", status="Charging", capacity=20, temp=433)
    machine.supply("BAT2", type="Battery", status="Charging", temp=9999)
    assert reading(machine) == PowerReading(Power.MAINS, 20, 43.3)


def test_files_of_rubbish_are_no_reading(tmp_path: Path) -> None:
    folder = tmp_path / "BAT0"
    folder.mkdir()
    (folder / "type").write_bytes(b"\xff" * 4096)
    (folder / "status").mkdir()
    assert read_power(tmp_path).power is Power.UNKNOWN
