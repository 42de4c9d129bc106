"""The other end: who is not there, goes away, is slow, says too much, is a stranger."""

import pytest

from p2pmoe.local_socket import asking
from p2pmoe.local_socket.asking import NoAnswer, NobodyThere, ask_line
from tests.support.answering_socket import answering, listening_on


@pytest.fixture
def listening(tmp_path):
    with listening_on(tmp_path) as server:
        yield server


def ask(folder, *, max_bytes: int = 100, wait_s: float = 10.0) -> bytes:
    return ask_line(folder, b"ping\n", max_bytes=max_bytes, wait_s=wait_s)


def test_an_answer_may_come_in_parts(tmp_path, listening):
    thread = answering(listening, b"po", b"ng\n")
    assert ask(tmp_path) == b"pong\n"
    thread.join()


@pytest.mark.parametrize("parts", [(), (b"pon",)])
def test_half_an_answer_is_none(tmp_path, listening, parts):
    thread = answering(listening, *parts)
    with pytest.raises(NoAnswer, match="went away"):
        ask(tmp_path)
    thread.join()


def test_an_answer_is_bounded(tmp_path, listening):
    thread = answering(listening, b"x" * 100)
    with pytest.raises(NoAnswer, match="over 10 bytes"):
        ask(tmp_path, max_bytes=10)
    thread.join()


def test_no_answer_in_time(tmp_path, listening):
    with pytest.raises(NoAnswer, match="timed out"):
        ask(tmp_path, wait_s=0.01)


def test_nobody_there(tmp_path):
    with pytest.raises(NobodyThere, match="No such file"):
        ask(tmp_path)


def test_somebody_else(tmp_path, listening, monkeypatch):
    monkeypatch.setattr(asking, "peer_uid", lambda _: 12345)
    with pytest.raises(NobodyThere, match="of user 12345"):
        ask(tmp_path)
