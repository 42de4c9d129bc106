"""What limits come to on a machine."""

from dataclasses import replace

import pytest

from mobile_worker.governor.limits import MIB, PowerKind, PowerRule, Preset
from mobile_worker.governor.presets import PRESETS

QUIET, MAX = PRESETS[Preset.QUIET], PRESETS[Preset.MAX]


@pytest.mark.parametrize(
    ("limits", "n_cpus", "in_use", "idle"),
    [
        (QUIET, 8, 1, 1),
        (PRESETS[Preset.BALANCED], 8, 2, 4),
        (PRESETS[Preset.BALANCED], 1, 1, 1),
        (MAX, 8, 8, 8),
        (replace(QUIET, cpus_idle=4), 8, 1, 4),
        (replace(QUIET, cpus_idle=4), 2, 1, 2),
    ],
)
def test_threads_are_those_allowed_and_there(limits, n_cpus, in_use, idle) -> None:
    assert limits.threads_of(n_cpus, in_use=True) == in_use
    assert limits.threads_of(n_cpus, in_use=False) == idle
    assert limits.most_threads_of(n_cpus) == max(in_use, idle)


def test_units() -> None:
    assert QUIET.up_bytes_s == 625_000
    assert QUIET.daily_bytes == 1000 * MIB
    assert QUIET.disk_bytes == 8192 * MIB
    assert (MAX.up_bytes_s, MAX.daily_bytes) == (0, 0)


def test_power_in_words() -> None:
    assert str(PowerRule(PowerKind.MAINS)) == "mains"
    assert str(PowerRule(PowerKind.BATTERY, 60)) == "battery>=60"
