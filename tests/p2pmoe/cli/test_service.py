"""`p2pmoe service`: shown, installed, removed, with the systems' commands noted."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from p2pmoe.contributor.services import carrying_out
from p2pmoe.contributor.services import plan as plan_module
from p2pmoe.contributor.services.carrying_out import Ran
from p2pmoe.errors import ConfigurationError
from relay.errors import EndpointError
from tests.support.commands import run_here

URL = "wss://relay.example/relay"


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Take the place of systemd; return what was run."""
    noted: list[str] = []

    def run(command: Sequence[str]) -> Ran:
        noted.append(" ".join(command))
        return Ran((0, "active"))

    monkeypatch.setattr(plan_module.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(sys, "platform", "linux")
    for name in ("install", "remove", "is_running"):
        function = getattr(carrying_out, name)
        monkeypatch.setattr(function, "__defaults__", (run,))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("TERMUX_VERSION", "P2PMOE_INVITE"):
        monkeypatch.delenv(name, raising=False)
    return noted


def unit(folder: Path) -> Path:
    return folder / "config" / "systemd" / "user" / "p2pmoe-worker.service"


def test_a_dry_run_shows_all_and_does_nothing(tmp_path, ran):
    data = ("--data", tmp_path / "worker")
    shown = run_here("service", "install", URL, *data, "--dry-run")
    assert shown.exit_code == 0, shown.exception
    assert f"-m p2pmoe contribute {URL} --data" in shown.stdout
    assert "# then: systemctl --user enable --now p2pmoe-worker.service" in shown.stdout
    assert ran == []
    assert not unit(tmp_path).exists()
    assert not (tmp_path / "worker").exists()
    assert "disable" in run_here("service", "uninstall", *data, "--dry-run").stdout


def test_it_is_installed_looked_at_and_removed(tmp_path, ran):
    data = ("--data", tmp_path / "worker")
    assert run_here("service", "status", *data).exit_code == 1
    words = ("service", "install", *data, "--", URL, "--threads", 2)
    shown = run_here(*words)
    assert shown.exit_code == 0, shown.exception
    text = unit(tmp_path).read_text()
    assert "--yes --threads 2" in text
    assert f"ReadWritePaths={tmp_path}/worker" in text
    status = run_here("service", "status", *data)
    assert status.exit_code == 0
    assert "running\tyes" in status.stdout
    assert run_here("service", "status", *data, "--json").exit_code == 0
    assert run_here("service", "uninstall", *data).exit_code == 0
    assert not unit(tmp_path).exists()
    assert run_here("service", "uninstall", *data).exit_code == 0
    assert ran[-1] == "systemctl --user daemon-reload"


def test_a_network_that_cannot_be_is_refused_before_anything_is_written(tmp_path, ran):
    for words, error in ((("http://x",), EndpointError), ((), ConfigurationError)):
        shown = run_here("service", "install", *words, "--data", tmp_path)
        assert isinstance(shown.exception, error)
    unknown = run_here("service", "install", URL, "--", "--colour", "red")
    assert unknown.exit_code == 2
    assert "colour" in unknown.output
    assert ran == []
    assert not unit(tmp_path).exists()
