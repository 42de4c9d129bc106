"""`p2pmoe pause`: of a running worker, and of the next one."""

from mobile_worker.governor.remembered import Remembered
from p2pmoe.contributor.errors import WorkerNotRunning
from p2pmoe.errors import ConfigurationError
from tests.support.answering_worker import answering_worker
from tests.support.commands import run_here


def test_a_running_worker_rests(tmp_path):
    with answering_worker(tmp_path) as (_, governor, _):
        assert "paused user" in run_here("pause", "--data", tmp_path).stdout
        shown = run_here("pause", "1h30m", "--data", tmp_path, "--json")
        assert '"state": "paused_user"' in shown.stdout
        assert governor.wishes == [("pause", None), ("pause", 5400.0)]


def test_without_one_it_is_noted_for_the_next(tmp_path):
    nobody = run_here("pause", "--data", tmp_path)
    assert isinstance(nobody.exception, WorkerNotRunning)
    (tmp_path / "identity").touch()
    assert run_here("pause", "--data", tmp_path).exit_code == 0
    assert Remembered(tmp_path / "governor.json").paused_until(0) == 0


def test_a_time_that_is_none_is_one_line(tmp_path):
    shown = run_here("pause", "soon", "--data", tmp_path)
    assert isinstance(shown.exception, ConfigurationError)
