"""What the doctor says to a contributor: known, assumed, or to be said once."""

import dataclasses

import pytest

from mobile_worker.contribute.machine import Machine
from mobile_worker.governor.limits import Preset
from mobile_worker.governor.presets import PRESETS
from mobile_worker.governor.readings import NOTHING_KNOWN, Power, Readings
from mobile_worker.session.identity import load_or_create
from p2pmoe.doctor import contributor
from p2pmoe.doctor.findings import Verdict
from tests.support.answering_worker import answering_worker

QUIET = PRESETS[Preset.QUIET]


def test_the_key(tmp_path) -> None:
    assert contributor.key(tmp_path).verdict is Verdict.NOTE
    load_or_create(tmp_path / "identity").release()
    assert contributor.key(tmp_path).verdict is Verdict.OK
    (tmp_path / "identity").chmod(0o644)
    found = contributor.key(tmp_path)
    assert found.verdict is Verdict.FAULT
    assert "chmod 600" in found.advice


def test_limits_that_cannot_be_read_are_a_fault(tmp_path) -> None:
    found, limits = contributor.limits(tmp_path)
    assert (found.verdict, limits) == (Verdict.OK, QUIET)
    (tmp_path / "limits.toml").write_text("[limits]\ncpus = 0\n")
    found, limits = contributor.limits(tmp_path)
    assert (found.verdict, limits) == (Verdict.FAULT, None)
    assert "cpus" in found.text


@pytest.mark.parametrize(
    ("free", "verdict"),
    [(None, Verdict.NOTE), (1 << 20, Verdict.NOTE), (1 << 40, Verdict.OK)],
)
def test_memory(free, verdict) -> None:
    machine = Machine(memory_bytes=None, free_memory_bytes=free, n_cpus=2)
    assert contributor.memory(machine, QUIET).verdict is verdict


def test_what_is_told_is_said() -> None:
    told = Readings(
        power=Power.BATTERY, battery_percent=43, temperature_c=51.7, is_metered=True
    )
    assert contributor.power(told, QUIET).text == "on battery, battery 43 %"
    assert contributor.metered(told, QUIET).text == "metered"
    assert contributor.heat(told).text == "52 °C"


def test_what_is_not_told_is_to_be_said_once() -> None:
    for look, name in ((contributor.power, "power"), (contributor.metered, "network")):
        found = look(NOTHING_KNOWN, QUIET)
        assert found.verdict is Verdict.NOTE
        assert f"limits set assume_{name}=" in found.advice
    said = dataclasses.replace(QUIET, assume_power=Power.MAINS, assume_metered=False)
    assert contributor.power(NOTHING_KNOWN, said).verdict is Verdict.OK
    assert contributor.metered(NOTHING_KNOWN, said).verdict is Verdict.OK
    assert "slower" in contributor.heat(NOTHING_KNOWN).text


def test_programs_of_termux_that_are_missing_are_named() -> None:
    assert contributor.termux(lambda name: name).verdict is Verdict.OK
    here = {"termux-wake-lock"}
    found = contributor.termux(lambda name: name if name in here else None)
    assert found.verdict is Verdict.WARNING
    assert "termux-battery-status, termux-wifi-connectioninfo not found" in found.text
    assert "pkg install termux-api" in found.advice


def test_a_running_worker_is_asked(tmp_path) -> None:
    assert contributor.worker(tmp_path).verdict is Verdict.NOTE
    with answering_worker(tmp_path) as (desk, governor, _):
        assert contributor.worker(tmp_path).verdict is Verdict.OK
        governor.facts.kicked = "2 wrong answers"
        desk.controls.figures.update(1.0)
        found = contributor.worker(tmp_path)
        assert found.verdict is Verdict.WARNING
        assert found.text == "kicked: 2 wrong answers"
