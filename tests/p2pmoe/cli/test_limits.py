"""`p2pmoe limits`: shown and set, by a running worker or in its file."""

import json

import pytest

from mobile_worker.governor.errors import LimitsRefused
from p2pmoe.contributor.errors import ControlRefused
from p2pmoe.errors import ConfigurationError
from tests.support.answering_worker import answering_worker
from tests.support.commands import run_here


def values(shown) -> dict[str, str]:
    return {row["limit"]: row["value"] for row in json.loads(shown.stdout)["limits"]}


def test_a_running_worker_keeps_to_what_is_set(tmp_path):
    with answering_worker(tmp_path) as (_, governor, _):
        shown = run_here("limits", "set", "cpus=3", "--data", tmp_path, "--json")
        assert values(shown)["cpus"] == "3"
        assert governor.limits.cpus == 3
        assert values(run_here("limits", "--data", tmp_path, "--json"))["cpus"] == "3"
        wrong = run_here("limits", "set", "cpus=x", "--data", tmp_path)
        assert isinstance(wrong.exception, ControlRefused)


def test_without_one_the_file_is_changed(tmp_path):
    changes = ("preset=balanced", "daily-mb=500", "hours=22:00-07:00")
    assert run_here("limits", "set", *changes, "--data", tmp_path).exit_code == 0
    shown = values(run_here("limits", "--data", tmp_path, "--json"))
    assert (shown["preset"], shown["daily_mb"]) == ("balanced", "500")
    assert 'hours = "22:00-07:00"' in (tmp_path / "limits.toml").read_text()
    assert "cpus" in run_here("limits", "--data", tmp_path).stdout


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("cpus", ConfigurationError),
        ("=2", ConfigurationError),
        ("colour=red", LimitsRefused),
        ("power=fusion", LimitsRefused),
    ],
)
def test_what_cannot_be_set_is_one_line_and_changes_nothing(tmp_path, change, error):
    shown = run_here("limits", "set", change, "--data", tmp_path)
    assert isinstance(shown.exception, error)
    assert not (tmp_path / "limits.toml").exists()
