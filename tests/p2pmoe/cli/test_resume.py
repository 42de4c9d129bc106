"""`p2pmoe resume`: of a running worker, and of the next one."""

from mobile_worker.governor.remembered import Remembered
from p2pmoe.contributor.errors import WorkerNotRunning
from tests.support.answering_worker import answering_worker
from tests.support.commands import run_here


def test_a_paused_worker_goes_on(tmp_path):
    with answering_worker(tmp_path) as (_, governor, _):
        run_here("pause", "--data", tmp_path)
        assert "ready" in run_here("resume", "--data", tmp_path).stdout
        assert governor.wishes[-1] == "resume"


def test_without_one_the_next_starts_at_once(tmp_path):
    nobody = run_here("resume", "--data", tmp_path)
    assert isinstance(nobody.exception, WorkerNotRunning)
    record = Remembered(tmp_path / "governor.json")
    record.pause(None)
    record.save()
    assert run_here("resume", "--data", tmp_path).exit_code == 0
    assert Remembered(tmp_path / "governor.json").paused_until(0) is None
