"""Temperature by fake zones."""

from pathlib import Path

import pytest

from mobile_worker.governor.thermal import read_temperature
from tests.support.machines import FakeMachine


def test_the_hottest_zone_of_a_processor_counts(tmp_path: Path) -> None:
    machine = FakeMachine(tmp_path)
    machine.zone(0, "acpitz", 45_000)
    machine.zone(1, "x86_pkg_temp", 71_500)
    machine.zone(2, "iwlwifi_1", 99_000)
    machine.zone(3, "battery", 98_000)
    assert read_temperature(tmp_path / "sys/class/thermal") == 71.5


@pytest.mark.parametrize("told", ["-274000", "0", "127000", "x", "", "9" * 60])
def test_what_no_running_processor_has_is_no_reading(tmp_path: Path, told) -> None:
    machine = FakeMachine(tmp_path)
    machine.zone(0, "cpu-thermal", told)
    assert read_temperature(tmp_path / "sys/class/thermal") is None


def test_a_machine_without_zones(tmp_path: Path) -> None:
    assert read_temperature(tmp_path / "nowhere") is None
    (tmp_path / "thermal_zone0").mkdir()
    assert read_temperature(tmp_path) is None
