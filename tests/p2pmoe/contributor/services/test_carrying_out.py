"""A service is there whole or not at all."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from p2pmoe.contributor.services.carrying_out import (
    Ran,
    install,
    is_installed,
    is_running,
    remove,
    run_here,
)
from p2pmoe.contributor.services.plan import Manager, Place, ServicePlan, plan_of
from p2pmoe.errors import ConfigurationError


class Commands:
    """Takes note of what was run; what begins with `fails` ends with 1."""

    def __init__(self, fails: str = "nothing") -> None:
        self.ran: list[str] = []
        self.fails = fails

    def __call__(self, command: Sequence[str]) -> Ran:
        self.ran.append(" ".join(command))
        failed = self.fails in self.ran[-1]
        return Ran((1, "first\nno bus here\n") if failed else (0, ""))


def planned(folder: Path) -> ServicePlan:
    place = Place(home=folder, uid=1, config=folder / ".config")
    return plan_of(Manager.SYSTEMD, place, ("python",), folder / "data")


def test_it_is_written_started_looked_at_and_removed(tmp_path: Path) -> None:
    plan, commands = planned(tmp_path), Commands()
    assert remove(plan, commands) == []
    assert commands.ran == []
    install(plan, commands)
    install(plan, commands)  # once more: as it is now
    assert is_installed(plan)
    assert is_running(plan, commands)
    assert remove(plan, commands) == [plan.files[0].path]
    assert not is_installed(plan)
    assert commands.ran[-2:] == [
        "systemctl --user disable --now p2pmoe-worker.service",
        "systemctl --user daemon-reload",
    ]


def test_what_cannot_be_started_is_not_left_lying(tmp_path: Path) -> None:
    plan, commands = planned(tmp_path), Commands(fails="enable")
    with pytest.raises(ConfigurationError, match="failed with 1: no bus here"):
        install(plan, commands)
    assert not is_installed(plan)
    assert commands.ran[-1] == "systemctl --user daemon-reload"
    assert not is_running(plan, Commands(fails="is-active"))


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / ".config").write_text("a file")
    with pytest.raises(ConfigurationError, match=r"p2pmoe-worker\.service"):
        install(planned(tmp_path), Commands())


def test_a_program_that_is_not_there_is_a_failure() -> None:
    assert run_here(("p2pmoe-no-such-program",)).code == 127
    assert run_here(("sh", "-c", "echo one; echo two; exit 3")) == Ran(
        (3, "one\ntwo\n")
    )
