"""Calls of tools against those expected."""

import json

import pytest

from p2pmoe.evaluate.reading import Misread
from p2pmoe.evaluate.task_set import ExpectedCall
from p2pmoe.evaluate.tool_calls import MadeCall, calls_of, score_calls


def message(*calls: tuple[str, object]) -> dict[str, object]:
    return {
        "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": n, "arguments": a}}
            for n, a in calls
        ]
    }


def expected(*calls: tuple[str, dict[str, object]]) -> list[ExpectedCall]:
    return [ExpectedCall(name=name, arguments=arguments) for name, arguments in calls]


def test_calls_are_read_from_a_message():
    found = calls_of(message(("f", '{"a": 1}'), ("g", "no json"), ("h", None)))
    assert found == [
        MadeCall(name="f", arguments={"a": 1}),
        MadeCall(name="g", arguments=None),
        MadeCall(name="h", arguments=None),
    ]
    assert calls_of({"content": "hi"}) == []
    assert calls_of({"tool_calls": None}) == []


@pytest.mark.parametrize(
    "calls", [5, [5], [{}], [{"function": {}}], [{"function": {"name": 1}}], [{}] * 65]
)
def test_what_is_no_call_is_a_misread(calls):
    with pytest.raises(Misread, match="tool_calls"):
        calls_of({"tool_calls": calls})


@pytest.mark.parametrize(
    ("made", "wanted", "subset", "names", "right"),
    [
        ([], [], False, True, True),
        ([("f", {})], [], False, False, False),
        ([], [("f", {})], False, False, False),
        ([("f", {"a": 1.0})], [("f", {"a": 1})], False, True, True),
        ([("f", {"a": 2})], [("f", {"a": 1})], False, True, False),
        ([("f", {"a": 1, "b": 2})], [("f", {"a": 1})], False, True, False),
        ([("f", {"a": 1, "b": 2})], [("f", {"a": 1})], True, True, True),
        ([("g", {}), ("f", {})], [("f", {}), ("g", {})], False, True, True),
        ([("f", {}), ("f", {})], [("f", {})], False, False, False),
        ([("f", {"a": 1}), ("f", {"a": 1})], [("f", {"a": 1}), ("f", {"a": 2})],
         False, True, False),
    ],
)  # fmt: skip
def test_exactly_the_expected_calls_are_right(made, wanted, subset, names, right):
    calls = calls_of(message(*((n, json.dumps(a)) for n, a in made)))
    score = score_calls(calls, expected(*wanted), subset=subset)
    assert (score.names, score.right) == (names, right)


def test_arguments_that_are_no_object_are_wrong_whatever_is_expected():
    made = calls_of(message(("f", "{")))
    score = score_calls(made, expected(("f", {})), subset=True)
    assert (score.names, score.right) == (True, False)
