"""Lines of the control socket: whole ones come back, others are one error."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.contributor.errors import ControlRefused, WorkerSilent
from p2pmoe.contributor.lines import (
    MAX_LINE_BYTES,
    pack_error,
    pack_request,
    pack_result,
    parse_answer,
    parse_request,
)


def test_what_is_asked_and_answered_comes_back() -> None:
    assert parse_request(pack_request("pause", {"for_s": 60})) == (
        "pause",
        {"for_s": 60},
    )
    assert parse_answer(pack_result({"state": "ready"})) == {"state": "ready"}


def test_an_error_comes_back_with_its_advice() -> None:
    with pytest.raises(ControlRefused, match="no such limit") as caught:
        parse_answer(pack_error("no such limit", "see p2pmoe limits"))
    assert caught.value.advice == "see p2pmoe limits"


BAD = [
    b"",
    b"\n",
    b"{}",
    b"[]\n",
    b'{"version": 2}\n',
    b'{"version": 1, "operation": 3, "params": {}}\n',
    b'{"version": 1, "operation": "x"}\n',
    b'{"version": 1, "version": 1}\n',
    b'{"version": 1, "result": NaN}\n',
    b"\xff\n",
    b"[" * 5000 + b"\n",
    b" " * MAX_LINE_BYTES + b"\n",
]


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_anything_else_is_one_error(line: bytes) -> None:
    with pytest.raises(ControlRefused):
        parse_request(line)
    with pytest.raises(WorkerSilent):
        parse_answer(line)


@given(st.binary(max_size=60))
def test_no_bytes_do_more(noise: bytes) -> None:
    with pytest.raises((ControlRefused, WorkerSilent)):
        parse_request(noise + b"\n")
