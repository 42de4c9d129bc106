"""A desk behind a socket: commands ask, nonsense and bugs are answered."""

import functools
import json

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.contributor import desk as desk_module
from p2pmoe.contributor.client import ask_worker
from p2pmoe.contributor.control_socket import answer_line, control_server
from p2pmoe.contributor.desk import Desk
from p2pmoe.contributor.errors import ControlRefused, WorkerNotRunning
from p2pmoe.contributor.lines import pack_request, parse_answer
from tests.support.trio_test import trio_test
from tests.support.worker_controls import worker_controls, worker_desk


@trio_test
async def test_a_command_asks_a_worker_of_the_same_user(tmp_path):
    ask = functools.partial(trio.to_thread.run_sync, ask_worker, tmp_path)
    async with trio.open_nursery() as nursery:
        await nursery.start(control_server(tmp_path, worker_desk()).run)
        assert (await ask("status"))["state"] == "ready"
        assert (await ask("pause", {"for_s": 60}))["state"] == "paused_user"
        with pytest.raises(ControlRefused, match="no operation"):
            await ask("explode")
        nursery.cancel_scope.cancel()
    with pytest.raises(WorkerNotRunning):
        ask_worker(tmp_path, "status")


@trio_test
async def test_a_stop_is_answered_before_it_ends(tmp_path):
    controls, _, _ = worker_controls()
    service = trio.CancelScope()
    controls.end = service.cancel
    with service:
        async with trio.open_nursery() as nursery:
            server = control_server(tmp_path, Desk(controls=controls))
            await nursery.start(server.run)
            with trio.CancelScope(shield=True):
                told = await trio.to_thread.run_sync(ask_worker, tmp_path, "stop")
    assert told == {}


def test_nonsense_is_answered():
    with pytest.raises(ControlRefused, match="a request that"):
        parse_answer(answer_line(worker_desk(), b"GET / HTTP/1.1\n"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    operation=st.sampled_from(sorted(desk_module._OPERATIONS)) | st.text(max_size=8),
    params=st.dictionaries(st.sampled_from(["for_s", "limits", "x"]), JSON, max_size=2),
)
def test_whatever_is_asked_is_answered_by_a_line(operation, params):
    line = json.dumps({"version": 1, "operation": operation, "params": params})
    answer = answer_line(worker_desk(), line.encode() + b"\n")
    assert answer.endswith(b"\n")
    assert b"failed at this" not in answer


def test_a_bug_is_one_error_and_in_the_log(monkeypatch, caplog):
    def fail(desk, params):
        raise ZeroDivisionError

    monkeypatch.setitem(desk_module._OPERATIONS, "status", (fail, ()))
    with pytest.raises(ControlRefused, match="failed at this"):
        parse_answer(answer_line(worker_desk(), pack_request("status", {})))
    assert "ZeroDivisionError" in caplog.text
