"""`p2pmoe drain`: asks for the end, and waits for it unless told not to."""

from p2pmoe.contributor.errors import WorkerNotRunning
from tests.support.answering_worker import answering_worker
from tests.support.commands import run_here


def test_it_asks_and_waits_until_the_key_is_free(tmp_path):
    with answering_worker(tmp_path) as (desk, _, ended):
        shown = run_here("drain", "--data", tmp_path)
        assert shown.exit_code == 0, shown.output
        assert "state\tdraining: stopped by its user" in shown.stdout
        assert shown.stderr == "drained: it has ended\n"
        assert desk.controls.stop.is_set()
        assert ended == []
        assert run_here("drain", "--data", tmp_path, "--no-wait").exit_code == 0
    nobody = run_here("drain", "--data", tmp_path)
    assert isinstance(nobody.exception, WorkerNotRunning)
