"""Each says what to do, and how the command ends."""

from p2pmoe.contributor.errors import ControlRefused, WorkerNotRunning, WorkerSilent


def test_what_to_do_and_the_exit_code() -> None:
    assert "p2pmoe contribute" in WorkerNotRunning("no worker").advice
    assert WorkerSilent("no answer").exit_code == 3
    assert ControlRefused("no").exit_code == 2
