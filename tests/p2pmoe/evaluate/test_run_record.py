"""A run's document: read back as it was, or refused by the field that is wrong."""

import copy
import dataclasses
import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.evaluate.reading import Misread
from p2pmoe.evaluate.run_record import EvaluationRun, TaskResult, read_run
from tests.support.evaluations import RUN


def read_again(run: EvaluationRun) -> EvaluationRun:
    return read_run(json.loads(json.dumps(run.document(), allow_nan=False)))


def test_a_run_is_read_back():
    found = read_again(RUN)
    assert dataclasses.replace(found, tasks=tuple(found.tasks)) == RUN
    assert found.identity == RUN.identity


def test_parts_may_be_missing():
    bare = EvaluationRun(
        made=RUN.made, model="m", configuration=None, text=None, tasks_from=None,
        figures={},
    )  # fmt: skip
    assert read_again(bare).digest == ""
    failed = dataclasses.replace(
        RUN, tasks=(TaskResult(id="a", kind="tools", failure="refused"),)
    )
    assert read_again(failed).tasks[0].failure == "refused"


def put(path: str, value: object):
    def change(document: dict) -> None:
        *outer, last = path.split(".")
        for name in outer:
            document = document[int(name) if name.isdecimal() else name]
        document[last] = value

    return change


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("kind", "other", "no run of"),
        ("version", 2, "has version 2, not 1"),
        ("made", "yesterday", "which is no time"),
        ("extra", 1, "extra is unknown"),
        ("inputs", None, "inputs is no object"),
        ("inputs.text", [], "inputs.text is no object"),
        ("inputs.text.n_windows", 0, "n_windows must be from 1"),
        ("inputs.set.n_tasks", 10**9, "n_tasks must be from 1"),
        ("inputs.more", 1, "inputs.more is unknown"),
        ("configuration.profile", "r8", "not of its fields"),
        ("configuration", [1], "configuration is no object"),
        ("figures.perplexity", "40", "figures.perplexity must be a number"),
        ("figures.unheard", 1.0, "figures.unheard is unknown"),
        ("windows.0.logprobs", [-1.0], "windows.0. has 1 and 3 items"),
        ("windows.0.logprobs", [1.0, 0, 0], "windows.0..logprobs holds '1.0'"),
        ("windows.0.logprobs", ["a", 0, 0], "windows.0..logprobs holds 'a'"),
        ("windows.0.logprobs", [True, 0, 0], "windows.0..logprobs holds 'True'"),
        ("windows.0.top", [1, 2, 3], "windows.0..top holds what is no token"),
        ("windows.0.extra", 1, "extra is unknown"),
        ("continuations.0.tokens", [-1], "tokens holds what is no id"),
        ("continuations.0.tokens", [True], "tokens holds what is no id"),
        ("tasks.0.id", 5, "tasks.0..id must be a string"),
        ("tasks.0.figures", {"x": 1}, "tasks.0..figures.x is unknown"),
        ("reference", "x" * 65, "more than 64"),
    ],
)
def test_what_is_wrong_is_named(path, value, words):
    document = copy.deepcopy(json.loads(json.dumps(RUN.document())))
    put(path, value)(document)
    with pytest.raises(Misread, match=words):
        read_run(document)


JSON = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.integers())


@given(st.sampled_from(sorted(RUN.document())), JSON)
def test_any_value_anywhere_is_read_or_named(name, value):
    with suppress(Misread):
        read_run({**json.loads(json.dumps(RUN.document())), name: value})
