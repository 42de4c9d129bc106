"""The file: strict, whole or not at all, and nothing in it is ignored."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mobile_worker.governor.errors import LimitsRefused
from mobile_worker.governor.limit_keys import changed
from mobile_worker.governor.limits import Preset
from mobile_worker.governor.limits_file import (
    limits_text,
    parse_limits,
    read_limits,
    write_limits,
)
from mobile_worker.governor.presets import PRESETS

QUIET = PRESETS[Preset.QUIET]


def test_no_file_is_quiet(tmp_path: Path) -> None:
    assert read_limits(tmp_path / "limits.toml") == QUIET


def test_the_text_of_the_design() -> None:
    limits = parse_limits(
        "[limits]\npreset = 'quiet'\ncpus = 1\ncpus_idle = 4\nram_mb = 2048\n"
        "disk_mb = 8192\nup_mbit = 5\ndaily_mb = 1000\n"
        "[when]\npower = 'mains'\nnetwork = 'unmetered'\nhours = 'any'\n"
        "idle_only = false\n"
    )
    assert limits == changed(QUIET, {"cpus_idle": "4"})


def test_what_is_written_is_read_and_only_what_differs_is_written(tmp_path) -> None:
    path = tmp_path / "worker" / "limits.toml"
    limits = changed(
        QUIET, {"preset": "balanced", "cpus": "all", "hours": "22:00-07:00"}
    )
    write_limits(path, limits)
    assert read_limits(path) == limits
    assert path.read_text() == (
        '[limits]\npreset = "balanced"\ncpus = "all"\n[when]\nhours = "22:00-07:00"\n'
    )
    assert [each.name for each in path.parent.iterdir()] == ["limits.toml"]


def test_a_folder_that_cannot_be_written_leaves_the_file(tmp_path: Path) -> None:
    (tmp_path / "limits.toml.new").mkdir()
    with pytest.raises(LimitsRefused, match="cannot be written"):
        write_limits(tmp_path / "limits.toml", QUIET)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[limit]\n", "'limit' is no table"),
        ("limits = 3\n", "'limits' is no table"),
        ("[limits]\ncpu = 1\n", r"\[limits\] has no 'cpu'"),
        ("[limits]\npower = 'any'\n", r"\[limits\] has no 'power'"),
        ("[when]\nhours = 7\n", "hours cannot be '7'"),
        ("[limits]\ncpus = 1.5\n", "cpus cannot be float"),
        ("[limits]\ncpus = [1]\n", "cpus cannot be list"),
        ("[limits]\ncpus = true\n", "cpus cannot be 'true'"),
        ("[limits]\ncpus = 99999999999999999999999999\n", "cpus cannot be int"),
        ("[limits\n", "no TOML"),
        ("[limits]\ncpus = 1\ncpus = 2\n", "no TOML"),
        ("x = " + "[" * 5000, "no TOML"),
        ("#" * 20_000, "larger than"),
    ],
)
def test_what_cannot_be_is_refused_with_the_files_name(tmp_path, text, says) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(text)
    with pytest.raises(LimitsRefused, match=says) as refused:
        read_limits(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_text_or_no_file(tmp_path: Path) -> None:
    path = tmp_path / "limits.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(LimitsRefused, match="no TOML"):
        read_limits(path)
    with pytest.raises(LimitsRefused, match="cannot be read"):
        read_limits(tmp_path)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "preset": st.sampled_from(list(Preset)).map(str),
            "cpus": st.sampled_from(["1", "7", "all"]),
            "daily_mb": st.sampled_from(["1", "any"]),
            "power": st.sampled_from(["mains", "any", "battery>=1", "battery>=100"]),
            "hours": st.sampled_from(["any", "23:00-01:30,02:00-03:00"]),
            "idle_only": st.sampled_from(["true", "false"]),
            "assume_network": st.sampled_from(["ask", "metered", "unmetered"]),
        },
    )
)
def test_any_limits_survive_the_file(values: dict[str, str]) -> None:
    limits = changed(QUIET, values)
    assert parse_limits(limits_text(limits)) == limits
