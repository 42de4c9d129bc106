"""Fault B19: bad values are refused by name; null is absent; nothing is ignored."""

import json

import pytest

from p2pmoe.api.chat import parse_chat
from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.requests import ApiRequest
from p2pmoe.api.text_completions import parse_completion

USER = [{"role": "user", "content": "hi"}]


def chat(**fields: object) -> ApiRequest:
    return parse_chat(json.dumps({"messages": USER, **fields}).encode())


def completion(**fields: object) -> ApiRequest:
    return parse_completion(json.dumps({"prompt": "hi", **fields}).encode())


def test_defaults() -> None:
    for make in (chat, completion):
        options = make().options
        assert options.sampling.temperature == 1.0
        assert (options.seed, options.stops, options.n) == (None, (), 1)
        assert not options.stream


def test_everything_that_is_supported() -> None:
    for make in (chat, completion):
        options = make(
            model="small",
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
            stream_options={"include_usage": True, "include_obfuscation": False},
            n=16,
            user="me",
            logit_bias={"3": 100, "1": -0.5},
            explain=True,
            trace=True,
        ).options
        assert options.sampling.top_k == 3
        assert options.sampling.repetition_penalty == 1.1
        assert options.sampling.logit_bias == ((1, -0.5), (3, 100.0))
        assert (options.seed, options.n) == (-5, 16)
        assert options.stops == ("a", "b")
        assert options.include_usage
        assert options.explains
        assert options.traces
        assert make(logit_bias=None).options.sampling.logit_bias == ()


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -1}, "max_tokens"),
        ({"max_tokens": 1 << 31}, "max_tokens"),
        ({"max_tokens": "5"}, "max_tokens"),
        ({"max_tokens": 1e3}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"n": 0}, "n"),
        ({"n": 17}, "n"),
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
        ({"logit_bias": []}, "logit_bias"),
        ({"logit_bias": {"1": 101}}, "logit_bias"),
        ({"logit_bias": {"1": True}}, "logit_bias"),
        ({"logit_bias": {"1": "5"}}, "logit_bias"),
        ({"logit_bias": {"hello": 5}}, "logit_bias"),
        ({"logit_bias": {"-1": 5}}, "logit_bias"),
        ({"logit_bias": {"1": 5, "01": 6}}, "logit_bias"),
        ({"logit_bias": {"9" * 5000: 5}}, "logit_bias"),
        ({"logit_bias": {str(n): 1 for n in range(1025)}}, "logit_bias"),
        ({"explain": 1}, "explain"),
        ({"trace": "x"}, "trace"),
        ({"no_such_field": 1}, "no_such_field"),
        ({"model": 3}, "model"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_b19_bad_values_name_their_field(fields: dict[str, object], param: str) -> None:
    for make in (chat, completion):
        with pytest.raises(ApiRefusal) as caught:
            make(**fields)
        assert caught.value.param == param
        assert param in str(caught.value)
