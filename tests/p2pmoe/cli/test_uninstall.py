"""`p2pmoe uninstall`: the service goes, a worker's files with --purge alone."""

import pytest

from mobile_worker.errors import IdentityInUse
from mobile_worker.session.identity import load_or_create
from p2pmoe.cli import service
from p2pmoe.errors import ConfigurationError
from tests.support.commands import run_here


@pytest.fixture(autouse=True)
def _no_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(command, data):
        raise ConfigurationError("no service manager")

    monkeypatch.setattr(service, "service_plan", refuse)


@pytest.fixture
def worker(tmp_path):
    load_or_create(tmp_path / "worker" / "identity").release()
    return tmp_path / "worker"


def test_what_a_worker_keeps_stays(worker):
    shown = run_here("uninstall", "--data", worker)
    assert shown.exit_code == 0
    assert (worker / "identity").exists()
    assert "uv tool uninstall p2pmoe" in shown.stderr


def test_a_purge_asks_and_says_what_is_lost(worker):
    shown = run_here("uninstall", "--purge", "--data", worker)
    assert isinstance(shown.exception, ConfigurationError)
    assert "this worker's key" in shown.stderr
    assert (worker / "identity").exists()
    assert run_here("uninstall", "--purge", "--yes", "--data", worker).exit_code == 0
    assert not worker.exists()
    assert run_here("uninstall", "--purge", "--yes", "--data", worker).exit_code == 0


def test_a_running_worker_is_not_pulled_from_under(worker):
    identity = load_or_create(worker / "identity")
    shown = run_here("uninstall", "--purge", "--yes", "--data", worker)
    identity.release()
    assert isinstance(shown.exception, IdentityInUse)
    assert shown.exception.advice == f"end it first: p2pmoe drain --data {worker}"
    assert (worker / "identity").exists()
