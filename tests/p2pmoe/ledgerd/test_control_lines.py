"""Lines of the control socket: both ways, and refusals of anything else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import FormatRefused, LedgerError, NotFound, StoreBusy
from p2pmoe.ledgerd import control_lines
from p2pmoe.ledgerd.control_lines import (
    pack_answer,
    pack_error,
    pack_request,
    parse_answer,
    parse_request,
)


def test_requests_and_answers_come_back():
    params = {"name": "2026-11", "commit": True, "rows": [{"n": 2**63 - 1}]}
    assert parse_request(pack_request("close", params)) == ("close", params)
    assert parse_answer(pack_answer({"n": 1})) == {"n": 1}


def test_an_error_comes_back_as_what_it_was():
    error = StoreBusy("3 writes\nare waiting")
    error.advice, error.exit_code = "Wait.", 3
    with pytest.raises(StoreBusy, match="3 writes") as caught:
        parse_answer(pack_error(error))
    assert (caught.value.advice, caught.value.exit_code) == ("Wait.", 3)
    with pytest.raises(NotFound):
        parse_answer(pack_error(NotFound("x")))


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "SystemExit", "message": "x", "exit_code": 0},
        {"kind": "__all__", "message": 1, "exit_code": "a"},
        {},
    ],
)
def test_an_unknown_error_is_a_plain_one(fields):
    line = json.dumps({"version": 1, "error": fields}).encode() + b"\n"
    with pytest.raises(LedgerError) as caught:
        parse_answer(line)
    assert (type(caught.value), caught.value.exit_code) == (LedgerError, 2)


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}\n",
        b"[]\n",
        b'{"version": 2, "operation": "ping", "params": {}}\n',
        b'{"version": 1, "operation": "ping", "params": {}}',
        b'{"version": 1, "operation": "ping", "params": []}\n',
        b'{"version": 1, "operation": 1, "params": {}}\n',
        b'{"version": 1, "operation": "a", "operation": "b", "params": {}}\n',
        b'{"version": 1, "operation": "a", "params": {"n": 123456789012345678901}}\n',
        b'{"version": 1, "operation": "a", "params": {"n": NaN}}\n',
        b"\xff\n",
        b"[" * 5000 + b"\n",
    ],
)
def test_no_request(line):
    with pytest.raises(FormatRefused):
        parse_request(line)


@given(st.binary(max_size=40))
def test_any_bytes_are_refused_or_read(raw):
    for parse in (parse_request, parse_answer):
        with pytest.raises(LedgerError):
            parse(raw + b"\n")


def test_a_line_is_bounded(monkeypatch):
    monkeypatch.setattr(control_lines, "MAX_LINE_BYTES", 64)
    with pytest.raises(FormatRefused, match="at most 64"):
        pack_request("close", {"name": "x" * 64})
    with pytest.raises(FormatRefused, match="does not end"):
        parse_request(b"x" * 65 + b"\n")
