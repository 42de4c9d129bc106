"""Fault B19: bad values are refused by name; null is absent; nothing is ignored."""

import json

import pytest

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.requests import ApiRequest, parse_chat, parse_completion
from p2pmoe.text.template import ChatMessage

USER = [{"role": "user", "content": "hi"}]


def chat(**fields: object) -> ApiRequest:
    return parse_chat(json.dumps({"messages": USER, **fields}).encode())


def completion(**fields: object) -> ApiRequest:
    return parse_completion(json.dumps({"prompt": "hi", **fields}).encode())


def test_defaults() -> None:
    request = chat()
    assert request.prompt == (ChatMessage(role="user", content="hi"),)
    assert request.is_chat
    assert request.sampling.temperature == 1.0
    assert (request.max_tokens, request.seed, request.stops) == (None, None, ())
    assert not request.stream
    assert completion().max_tokens == 16
    assert not completion().is_chat


def test_everything_that_is_supported() -> None:
    request = chat(
        model="small",
        max_completion_tokens=9,
        temperature=0,
        top_p=0.5,
        top_k=3,
        min_p=0.1,
        repetition_penalty=1.1,
        frequency_penalty=-1,
        presence_penalty=2,
        seed=-5,
        stop=["a", "b"],
        stream=True,
        stream_options={"include_usage": True},
        n=1,
        logprobs=False,
        tools=[],
        response_format={"type": "text"},
        user="me",
        logit_bias=None,
    )
    assert request.max_tokens == 9
    assert request.sampling.top_k == 3
    assert request.sampling.repetition_penalty == 1.1
    assert request.seed == -5
    assert request.stops == ("a", "b")
    assert request.include_usage


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1 << 31}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 1e3}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"n": 10**6}, "n"),
        ({"n": True}, "n"),
        ({"temperature": 999999}, "temperature"),
        ({"temperature": -1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"top_p": -1}, "top_p"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_k": -1}, "top_k"),
        ({"min_p": 2}, "min_p"),
        ({"repetition_penalty": 0}, "repetition_penalty"),
        ({"repeat_penalty": 0}, "repeat_penalty"),
        ({"frequency_penalty": 2.5}, "frequency_penalty"),
        ({"presence_penalty": -2.5}, "presence_penalty"),
        ({"seed": 1 << 63}, "seed"),
        ({"stop": ""}, "stop"),
        ({"stop": ["a", ""]}, "stop"),
        ({"stop": ["x"] * 100_000}, "stop"),
        ({"stop": "x" * 1001}, "stop"),
        ({"stop": [3]}, "stop"),
        ({"stop": 3}, "stop"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream": True, "stream_options": {"x": 1}}, "stream_options.x"),
        ({"stream": True, "stream_options": []}, "stream_options"),
        ({"logit_bias": {"1": 5}}, "logit_bias"),
        ({"no_such_field": 1}, "no_such_field"),
        ({"model": 3}, "model"),
    ],
    ids=str,
)
def test_b19_bad_values_name_their_field(fields: dict[str, object], param: str) -> None:
    for make in (chat, completion):
        with pytest.raises(ApiRefusal) as caught:
            make(**fields)
        assert caught.value.param == param
        assert param in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"logprobs": True},
        {"top_logprobs": 3},
        {"tools": [{"type": "function"}]},
        {"tool_choice": "required"},
        {"functions": [{}]},
        {"response_format": {"type": "json_object"}},
        {"modalities": ["audio"]},
        {"reasoning_effort": "high"},
        {"store": True},
    ],
    ids=str,
)
def test_what_is_not_built_is_refused_by_name(fields: dict[str, object]) -> None:
    with pytest.raises(ApiRefusal) as caught:
        chat(**fields)
    assert caught.value.param in fields
    assert caught.value.code == "unsupported_parameter"


@pytest.mark.parametrize(
    "fields",
    [{"echo": True}, {"best_of": 2}, {"suffix": "x"}, {"logprobs": 0}],
    ids=str,
)
def test_what_completions_do_not_support(fields: dict[str, object]) -> None:
    with pytest.raises(ApiRefusal):
        completion(**fields)


def test_differing_limits_are_refused() -> None:
    assert chat(max_tokens=5, max_completion_tokens=5).max_tokens == 5
    with pytest.raises(ApiRefusal, match="differs"):
        chat(max_tokens=5, max_completion_tokens=6)


def test_messages_of_all_kinds() -> None:
    request = chat(
        messages=[
            {"role": "developer", "content": "be kind"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}] * 2,
                "name": "n",
            },
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": []},
        ]
    )
    assert request.prompt == (
        ChatMessage(role="system", content="be kind"),
        ChatMessage(role="user", content="aa"),
        ChatMessage(role="assistant", content=""),
    )


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ([], "messages"),
        (None, "messages"),
        ("hi", "messages"),
        ([USER[0]] * 10_001, "messages"),
        (["hi"], "messages[0]"),
        ([{"role": "wizard", "content": "x"}], "messages[0].role"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "tool", "content": "x"}], "messages[0].role"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 3}], "messages[0].content"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        (
            [{"role": "user", "content": [{"type": "image_url"}]}],
            "messages[0].content[0].type",
        ),
        ([{"role": "user", "content": "x", "extra": 1}], "messages[0].extra"),
        (
            [{"role": "assistant", "content": "x", "tool_calls": [{}]}],
            "messages[0].tool_calls",
        ),
    ],
    ids=range(14),
)
def test_b19_bad_messages_name_their_place(messages: object, param: str) -> None:
    with pytest.raises(ApiRefusal) as caught:
        chat(messages=messages)
    assert caught.value.param == param


def test_prompts_of_all_kinds() -> None:
    assert completion(prompt=["hi"]).prompt == "hi"
    assert completion(prompt=[1, 2]).prompt == (1, 2)
    assert completion(prompt=[[1, 2]]).prompt == (1, 2)


@pytest.mark.parametrize(
    "prompt", [None, 3, [], ["a", "b"], [1, "a"], [-1], [True], {"a": 1}], ids=str
)
def test_bad_prompts_are_refused(prompt: object) -> None:
    with pytest.raises(ApiRefusal) as caught:
        completion(prompt=prompt)
    assert caught.value.param == "prompt"
