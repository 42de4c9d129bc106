"""Asking a worker: it answers, refuses, says nonsense, or is not there."""

import socket

import pytest

from mobile_worker.session.identity import load_or_create
from p2pmoe.contributor.client import ask_worker
from p2pmoe.contributor.errors import ControlRefused, WorkerNotRunning, WorkerSilent
from p2pmoe.contributor.lines import pack_error, pack_result
from tests.support.answering_socket import answering, listening_on


@pytest.fixture
def listening(tmp_path):
    with listening_on(tmp_path) as server:
        yield server


def test_it_answers(tmp_path, listening):
    thread = answering(listening, pack_result({"state": "ready"}))
    assert ask_worker(tmp_path, "status") == {"state": "ready"}
    thread.join()


def test_it_refuses_in_its_own_words(tmp_path, listening):
    thread = answering(listening, pack_error("no such limit", "see p2pmoe limits"))
    with pytest.raises(ControlRefused, match="no such limit"):
        ask_worker(tmp_path, "set-limits", {"limits": {"x": "1"}})
    thread.join()


@pytest.mark.parametrize("nonsense", [b"", b"half", b"noise\n"])
def test_nonsense_is_one_error(tmp_path, listening, nonsense):
    thread = answering(listening, nonsense)
    with pytest.raises(WorkerSilent):
        ask_worker(tmp_path, "status")
    thread.join()


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
