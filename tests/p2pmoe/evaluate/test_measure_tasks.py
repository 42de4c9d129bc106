"""Measuring tasks over an API that answers by a script."""

import json
from collections.abc import Mapping
from typing import Any

from p2pmoe.evaluate.asking import AnswerRefused
from p2pmoe.evaluate.figures import FIGURES
from p2pmoe.evaluate.measure_tasks import means, measure_tasks
from p2pmoe.evaluate.run_record import TaskResult
from p2pmoe.evaluate.task_set import Task, parse_task
from tests.support.evaluations import ScriptedApi, answering, echo_document
from tests.support.trio_test import trio_test

CHAT = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {}}}


def task(kind: str, **fields: object) -> Task:
    own = {} if "messages" in fields else {"prompt": "Q:"}
    return parse_task(json.dumps({"kind": kind, "id": "a", **own, **fields}))


async def one(api: ScriptedApi, own: Task) -> TaskResult:
    told: list[float] = []
    found = await measure_tasks(api, [own], lambda _, share: told.append(share))
    assert told == [0.0]
    assert found.figures == means(found.results)
    assert set(found.figures) <= set(FIGURES)
    return found.results[0]


@trio_test
async def test_an_answer_is_asked_greedily_and_judged():
    api = answering(" yes, it is")
    found = await one(api, task("answer", expect="yes", match="starts", max_tokens=5))
    assert found.figures == {"answer_accuracy": 1.0}
    assert found.answer == " yes, it is"
    assert api.seen == [
        ("/v1/completions", {"prompt": "Q:", "max_tokens": 5, "temperature": 0})
    ]


@trio_test
async def test_a_chat_goes_to_its_own_path():
    api = answering("no")
    found = await one(api, task("answer", messages=CHAT, expect="yes"))
    assert found.figures == {"answer_accuracy": 0.0}
    assert api.seen[0][0] == "/v1/chat/completions"
    assert api.seen[0][1]["messages"] == CHAT


@trio_test
async def test_of_choices_the_likeliest_counts():
    scores = {"Q: no": -1.0, "Q: yes": -0.5}

    def ask(_path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        # The second token begins in the prompt and ends in the choice.
        text = body["prompt"]
        return echo_document(["Q", text[1:4], text[4:]], [None, scores[text], -0.1])

    api = ScriptedApi(ask=ask)
    own = task("answer", expect=[" yes"], choices=[" no", " yes"])
    found = await one(api, own)
    assert (found.figures, found.answer) == ({"answer_accuracy": 1.0}, " yes")
    scores["Q: yes"] = -2.0
    assert (await one(api, own)).figures == {"answer_accuracy": 0.0}


@trio_test
async def test_the_format_is_judged_and_asked_for_where_the_task_says_so():
    schema = {"type": "object", "required": ["a"]}
    api = answering('{"a": 1}', '{"b": 1}', "so: {}", "[]")
    plain = task("format", schema=schema)
    assert (await one(api, plain)).figures == {
        "format_valid": 1.0,
        "format_matching": 1.0,
    }
    assert (await one(api, plain)).figures["format_matching"] == 0.0
    assert (await one(api, plain)).figures["format_valid"] == 0.0
    assert all("response_format" not in body for _, body in api.seen)
    await one(api, task("format", messages=CHAT, constrained=True))
    assert api.seen[-1][1]["response_format"] == {"type": "json_object"}
    api = answering('{"a": 1}')
    await one(api, task("format", messages=CHAT, schema=schema, constrained=True))
    wanted = api.seen[0][1]["response_format"]
    assert wanted["type"] == "json_schema"
    assert wanted["json_schema"]["schema"] == schema


@trio_test
async def test_a_long_answer_is_asked_once_a_seed_and_probed_twice():
    api = answering(
        "one two three four", "blue", "Blue.\nand", "one two five six", "red", "blue"
    )
    own = task("long", seeds=[3, 4], probe={"question": " Which?"})
    found = await one(api, own)
    assert found.figures == {
        "long_repetition": 0.0,
        "long_distinct": 1.0,
        "long_stability": 0.5,
        "long_consistency": 0.5,
    }
    bodies = [body for _, body in api.seen]
    assert [body.get("seed") for body in bodies] == [3, None, None, 4, None, None]
    assert bodies[1]["prompt"] == "Q:one two Which?"
    assert bodies[2]["prompt"] == "Q:one two three four Which?"


@trio_test
async def test_a_chat_is_probed_in_a_further_turn():
    api = answering("aa bb", "x", "x")
    own = task("long", messages=CHAT, seeds=[1], probe={"question": "Which?"})
    found = await one(api, own)
    assert found.figures["long_consistency"] == 1.0
    assert "long_stability" not in found.figures
    assert api.seen[2][1]["messages"] == [
        *CHAT,
        {"role": "assistant", "content": "aa bb"},
        {"role": "user", "content": "Which?"},
    ]


@trio_test
async def test_tools_are_offered_and_calls_judged():
    call = {"function": {"name": "f", "arguments": '{"n": 1}'}}
    answer = {"choices": [{"message": {"content": None, "tool_calls": [call]}}]}
    api = ScriptedApi(ask=lambda *_: answer)
    expect = [{"name": "f", "arguments": {"n": 1}}]
    own = task("tools", messages=CHAT, tools=[TOOL], expect=expect)
    found = await one(api, own)
    assert found.figures == {"tool_accuracy": 1.0, "tool_names": 1.0}
    assert found.answer == "f({'n': 1})"
    assert api.seen[0][1]["tools"] == [TOOL]
    other = task("tools", messages=CHAT, tools=[TOOL], expect=[])
    assert (await one(api, other)).figures["tool_accuracy"] == 0.0


@trio_test
async def test_what_is_refused_has_a_reason_and_no_figure():
    def refuse(*_: object) -> Mapping[str, Any]:
        raise AnswerRefused("refused (400): tools is not supported")

    own = task("tools", messages=CHAT, tools=[TOOL], expect=[])
    found = await one(ScriptedApi(ask=refuse), own)
    assert (found.figures, found.kind) == ({}, "tools")
    assert found.failure == "refused (400): tools is not supported"
    for document in ({}, {"choices": []}, {"choices": [{"message": 5}]}):
        api = ScriptedApi(ask=lambda *_, d=document: d)
        assert (await one(api, own)).failure == "the server's answer holds no message"


def test_means_are_over_the_tasks_that_have_the_figure():
    results = [
        TaskResult(id="a", kind="answer", figures={"answer_accuracy": 1.0}),
        TaskResult(id="b", kind="answer", figures={"answer_accuracy": 0.0}),
        TaskResult(id="c", kind="answer", failure="lost"),
        TaskResult(id="d", kind="format", figures={"format_valid": 1.0}),
    ]
    assert means(results) == {"answer_accuracy": 0.5, "format_valid": 1.0}
