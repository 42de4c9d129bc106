"""Limits met with options, and what a machine does not tell asked once."""

from pathlib import Path

import pytest

from mobile_worker.contribute.errors import LimitRefused
from mobile_worker.contribute.machine import Machine
from mobile_worker.governor.errors import LimitsRefused
from mobile_worker.governor.limit_keys import changed
from mobile_worker.governor.limits import Preset
from mobile_worker.governor.limits_file import LIMITS_FILE, read_limits, write_limits
from mobile_worker.governor.presets import PRESETS, UNLIMITED
from mobile_worker.governor.readings import Power, Readings
from p2pmoe.cli.contribute_limits import (
    Asked,
    Budget,
    ask_unknown,
    budget_of,
    first_readings,
    limits_line,
    unknown_of,
)

MIB, GIB = 1 << 20, 1 << 30
HERE = Machine(memory_bytes=16 * GIB, free_memory_bytes=12 * GIB, n_cpus=8)
QUIET = PRESETS[Preset.QUIET]


def test_quiet_is_what_holds_without_a_word(tmp_path: Path) -> None:
    budget = budget_of(tmp_path, HERE, Asked())
    assert budget == Budget(
        limits=QUIET, memory_bytes=2 * GIB, disk_bytes=8 * GIB, n_threads=1
    )


def test_the_file_holds_and_options_change_it_for_a_run(tmp_path: Path) -> None:
    write_limits(tmp_path / LIMITS_FILE, changed(QUIET, {"preset": "balanced"}))
    assert budget_of(tmp_path, HERE, Asked()).n_threads == 4
    asked = Asked(preset="max", memory="64M", disk="1G", threads=3)
    budget = budget_of(tmp_path, HERE, asked)
    assert (budget.memory_bytes, budget.disk_bytes) == (64 * MIB, GIB)
    assert budget.n_threads == budget.limits.cpus == budget.limits.cpus_idle == 3
    assert budget.limits.preset is Preset.MAX
    assert read_limits(tmp_path / LIMITS_FILE).preset is Preset.BALANCED


def test_memory_is_never_more_than_is_free(tmp_path: Path) -> None:
    tight = Machine(memory_bytes=16 * GIB, free_memory_bytes=100 * MIB, n_cpus=8)
    assert budget_of(tmp_path, tight, Asked()).memory_bytes == 80 * MIB
    unknown = Machine(memory_bytes=None, free_memory_bytes=None, n_cpus=1)
    assert budget_of(tmp_path, unknown, Asked(preset="max")).memory_bytes == 2 * GIB


def test_b15_what_cannot_be_is_one_error(tmp_path: Path) -> None:
    with pytest.raises(LimitsRefused, match="preset cannot be 'loud'"):
        budget_of(tmp_path, HERE, Asked(preset="loud"))
    with pytest.raises(LimitRefused, match="0 threads"):
        budget_of(tmp_path, HERE, Asked(threads=0))
    with pytest.raises(LimitRefused, match="above 90 %"):
        budget_of(tmp_path, HERE, Asked(memory="11G"))
    full = Machine(memory_bytes=16 * GIB, free_memory_bytes=MIB, n_cpus=8)
    with pytest.raises(LimitRefused, match="too little"):
        budget_of(tmp_path, full, Asked())


@pytest.mark.parametrize(
    ("limits", "readings", "unknown"),
    [
        (QUIET, Readings(), ("assume_power", "assume_network")),
        (QUIET, Readings(power=Power.BATTERY, is_metered=True), ()),
        (QUIET, Readings(power=Power.MAINS), ("assume_network",)),
        (UNLIMITED, Readings(), ()),
        (
            changed(QUIET, {"assume_power": "mains", "assume_network": "unmetered"}),
            Readings(),
            (),
        ),
    ],
)
def test_only_what_the_limits_need_is_asked(limits, readings, unknown) -> None:
    assert unknown_of(limits, readings) == unknown


def test_an_answer_is_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("typer.confirm", lambda *_args, **_options: False)
    file = tmp_path / LIMITS_FILE
    budget = budget_of(tmp_path, HERE, Asked(preset="balanced"))
    limits = ask_unknown(budget, file, ("assume_power",), asks=True)
    assert (limits.assume_power, limits.preset) == (Power.BATTERY, Preset.BALANCED)
    assert unknown_of(limits, Readings(is_metered=False)) == ()
    # The preset was for this run alone; the answer is not.
    assert read_limits(file) == changed(QUIET, {"assume_power": "battery"})


def test_nobody_to_ask_is_told_how_to_answer(tmp_path: Path, capsys) -> None:
    budget = budget_of(tmp_path, HERE, Asked())
    file = tmp_path / LIMITS_FILE
    limits = ask_unknown(budget, file, ("assume_network",), asks=False)
    assert limits == budget.limits
    assert "p2pmoe limits set assume_network=metered" in capsys.readouterr().err
    assert not file.exists()


def test_limits_in_a_line() -> None:
    assert limits_line(QUIET) == (
        "preset quiet, power mains, network unmetered, 1000 MB a day, "
        "rests while others take 25 % of it"
    )
    night = changed(UNLIMITED, {"hours": "22:00-07:00"})
    assert limits_line(night) == (
        "preset max, power any, network any, hours 22:00-07:00"
    )


def test_a_first_look_at_this_machine() -> None:
    assert first_readings().power in set(Power)


def test_a_hub_does_nothing_else_unless_its_limits_say_so(tmp_path: Path) -> None:
    hub = budget_of(tmp_path, HERE, Asked(is_hub=True, memory="1G"))
    assert (hub.limits, hub.n_threads) == (UNLIMITED, 8)
    named = budget_of(tmp_path, HERE, Asked(is_hub=True, preset="balanced"))
    assert named.limits.preset is Preset.BALANCED
    write_limits(tmp_path / LIMITS_FILE, QUIET)
    assert budget_of(tmp_path, HERE, Asked(is_hub=True)).limits == QUIET
