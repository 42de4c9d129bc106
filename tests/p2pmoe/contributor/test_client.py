"""Asking a worker: it answers, refuses, says nonsense, or is not there."""

import socket
import threading

import pytest

from mobile_worker.session.identity import load_or_create
from p2pmoe.contributor.client import ask_worker
from p2pmoe.contributor.errors import ControlRefused, WorkerNotRunning, WorkerSilent
from p2pmoe.contributor.lines import pack_error, pack_result


@pytest.fixture
def worker(tmp_path):
    """Answer one client with what is put into the list."""
    answers: list[bytes] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "control.sock"))
        server.listen(1)

        def serve() -> None:
            connected, _ = server.accept()
            with connected:
                connected.recv(1 << 16)
                connected.sendall(answers[0])

        thread = threading.Thread(target=serve)
        thread.start()
        yield answers
        thread.join()


def test_it_answers(tmp_path, worker):
    worker.append(pack_result({"state": "ready"}))
    assert ask_worker(tmp_path, "status") == {"state": "ready"}


def test_it_refuses_in_its_own_words(tmp_path, worker):
    worker.append(pack_error("no such limit", "see p2pmoe limits"))
    with pytest.raises(ControlRefused, match="no such limit"):
        ask_worker(tmp_path, "set-limits", {"limits": {"x": "1"}})


@pytest.mark.parametrize("nonsense", [b"", b"half", b"noise\n"])
def test_nonsense_is_one_error(tmp_path, worker, nonsense):
    worker.append(nonsense)
    with pytest.raises(WorkerSilent):
        ask_worker(tmp_path, "status")


def test_it_does_not_run(tmp_path):
    with pytest.raises(WorkerNotRunning) as caught:
        ask_worker(tmp_path, "status")
    assert str(caught.value) == f"no worker runs on {tmp_path}"
    left = socket.socket(socket.AF_UNIX)  # of one that was killed
    left.bind(str(tmp_path / "control.sock"))
    left.close()
    with pytest.raises(WorkerNotRunning):
        ask_worker(tmp_path, "status")
    with pytest.raises(WorkerNotRunning):
        ask_worker(tmp_path / "none", "status")


def test_one_that_runs_without_a_socket_is_not_taken_for_none(tmp_path):
    identity = load_or_create(tmp_path / "identity")
    with pytest.raises(WorkerSilent, match="cannot be asked"):
        ask_worker(tmp_path, "status")
    identity.release()
