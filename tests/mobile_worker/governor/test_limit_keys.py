"""Settings by name: what they may be, and what is said of what they may not."""

import pytest

from mobile_worker.governor.errors import LimitsRefused
from mobile_worker.governor.limit_keys import LIMIT_KEYS, changed, rows
from mobile_worker.governor.limits import PowerKind, Preset
from mobile_worker.governor.presets import PRESETS
from mobile_worker.governor.readings import Power

QUIET = PRESETS[Preset.QUIET]


def test_values_as_people_write_them() -> None:
    limits = changed(
        QUIET,
        {
            "cpus": "2",
            "cpus_idle": "all",
            "power": "battery>= 60",
            "network": "any",
            "hours": "22:00-07:00",
            "idle_only": "true",
            "yield_percent": "any",
            "assume_power": "mains",
            "assume_network": "unmetered",
            "up_mbit": "any",
        },
    )
    assert (limits.cpus, limits.cpus_idle, limits.up_mbit) == (2, None, None)
    assert (limits.power.kind, limits.power.percent) == (PowerKind.BATTERY, 60)
    assert limits.network_any
    assert limits.idle_only
    assert limits.yield_percent is None
    assert (limits.assume_power, limits.assume_metered) == (Power.MAINS, False)
    again = changed(QUIET, {name: value for name, value, _ in rows(limits)})
    assert again == limits


def test_a_preset_keeps_what_was_set_beside_the_one_before() -> None:
    limits = changed(QUIET, {"cpus": "3", "hours": "01:00-02:00"})
    loud = changed(limits, {"preset": "max"})
    assert (loud.preset, loud.cpus, str(loud.hours)) == (
        Preset.MAX,
        3,
        "01:00-02:00",
    )
    assert loud.daily_mb is None
    both = changed(QUIET, {"cpus": "5", "preset": "balanced"})
    assert (both.cpus, both.preset) == (5, Preset.BALANCED)


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("cpus", "0", 'a whole number from 1 to 256, or "all"'),
        ("cpus", "257", "256"),
        ("cpus", "two", "whole"),
        ("cpus", "\uff19", "whole"),
        ("cpus", "9" * 5000, "whole"),
        ("ram_mb", "3", "from 4"),
        ("daily_mb", "-1", "any"),
        ("power", "battery", "battery>=PERCENT"),
        ("power", "battery>=101", "battery"),
        ("power", "battery>=", "battery"),
        ("power", "mains>=60", "mains"),
        ("network", "wifi", "unmetered or any"),
        ("hours", "22-7", "22:00-07:00"),
        ("idle_only", "yes", "false or true"),
        ("preset", "loud", "quiet or balanced or max"),
        ("yield_percent", "101", "100"),
        ("assume_power", "solar", "ask or mains or battery"),
    ],
)
def test_what_cannot_be_says_what_may_be(name: str, value: str, says: str) -> None:
    with pytest.raises(LimitsRefused, match=f"^{name} cannot be") as refused:
        changed(QUIET, {name: value})
    assert says in refused.value.advice
    assert len(str(refused.value)) < 100


def test_an_unknown_name_is_told_the_known_ones() -> None:
    with pytest.raises(LimitsRefused, match="'cpu' is no limit") as refused:
        changed(QUIET, {"cpu": "1"})
    assert "cpus_idle" in refused.value.advice


def test_every_setting_has_its_meaning_and_what_it_may_be() -> None:
    for name, value, meaning in rows(QUIET):
        assert value
        assert meaning
        assert LIMIT_KEYS[name].may_be
        assert LIMIT_KEYS[name].table in {"limits", "when"}
