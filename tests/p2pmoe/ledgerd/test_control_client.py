"""Asking a ledger: who is not there, goes away, is slow, or is somebody else."""

import pytest

from ledger.errors import FormatRefused, StoreBusy
from p2pmoe.ledgerd.control_client import Unreachable, ask_control
from p2pmoe.ledgerd.control_lines import pack_answer
from p2pmoe.local_socket import asking
from tests.support.answering_socket import answering, listening_on


@pytest.fixture
def listening(tmp_path):
    with listening_on(tmp_path) as server:
        yield server


def test_an_answer_may_come_in_parts(tmp_path, listening):
    line = pack_answer({"n": 7})
    thread = answering(listening, line[:5], line[5:])
    assert ask_control(tmp_path, "ping", {}) == {"n": 7}
    thread.join()


@pytest.mark.parametrize(
    ("parts", "error"),
    [((), StoreBusy), ((b'{"ver',), StoreBusy), ((b"noise\n",), FormatRefused)],
)
def test_a_broken_answer_leaves_it_open(tmp_path, listening, parts, error):
    thread = answering(listening, *parts)
    with pytest.raises(error):
        ask_control(tmp_path, "ping", {})
    thread.join()


def test_no_answer_in_time_says_so(tmp_path, listening):
    with pytest.raises(StoreBusy, match="no answer to close") as caught:
        ask_control(tmp_path, "close", {}, wait_s=0.01)
    assert "nothing is done twice" in caught.value.advice


def test_nobody_there(tmp_path):
    with pytest.raises(Unreachable, match="no ledger answers"):
        ask_control(tmp_path, "ping", {})


def test_somebody_else(tmp_path, listening, monkeypatch):
    monkeypatch.setattr(asking, "peer_uid", lambda _: 12345)
    with pytest.raises(Unreachable, match="of user 12345"):
        ask_control(tmp_path, "ping", {})
