"""`p2pmoe stop`: ends it at once, and says so when it has."""

from p2pmoe.contributor.errors import WorkerNotRunning
from tests.support.answering_worker import answering_worker
from tests.support.commands import run_here


def test_it_ends_a_worker(tmp_path):
    with answering_worker(tmp_path) as (desk, _, ended):
        shown = run_here("stop", "--data", tmp_path)
        assert shown.exit_code == 0, shown.output
        assert ended == ["end"]
        assert not desk.controls.stop.is_set()
    nobody = run_here("stop", "--data", tmp_path)
    assert isinstance(nobody.exception, WorkerNotRunning)
