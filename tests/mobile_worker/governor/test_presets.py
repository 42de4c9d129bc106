"""The presets grow, and quiet is what it promises."""

from mobile_worker.governor.limits import MIB, PowerKind, Preset
from mobile_worker.governor.presets import MANNERS, PRESETS, UNLIMITED, memory_of

GIB = 1 << 30


def test_quiet_is_what_a_contributor_is_promised() -> None:
    quiet = PRESETS[Preset.QUIET]
    assert (quiet.cpus, quiet.cpus_idle) == (1, 1)
    assert (quiet.ram_mb, quiet.daily_mb) == (2048, 1000)
    assert quiet.power.kind is PowerKind.MAINS
    assert quiet.yield_percent == 25
    assert MANNERS[Preset.QUIET].nice == 19


def test_memory_is_a_share_of_the_machine_and_no_more_than_asked() -> None:
    quiet, balanced = PRESETS[Preset.QUIET], PRESETS[Preset.BALANCED]
    assert memory_of(quiet, 64 * GIB) == 2 * GIB
    assert memory_of(quiet, 5 * GIB) == GIB
    assert memory_of(balanced, 10 * GIB) == 4 * GIB
    assert memory_of(UNLIMITED, 8 * GIB) == 6 * GIB
    assert memory_of(UNLIMITED, None) == 2048 * MIB


def test_each_preset_takes_no_less_than_the_one_before() -> None:
    nice = [MANNERS[preset].nice for preset in Preset]
    hot = [MANNERS[preset].hot_c for preset in Preset]
    ram = [PRESETS[preset].ram_mb for preset in Preset]
    assert (nice, hot, ram) == (sorted(nice, reverse=True), sorted(hot), sorted(ram))
    assert set(PRESETS) == set(MANNERS) == set(Preset)
