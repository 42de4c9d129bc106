"""The fields of a text completion alone."""

import pytest

from p2pmoe.api.errors import ApiRefusal
from tests.p2pmoe.api.test_requests import completion


def test_defaults() -> None:
    request = completion()
    assert request.prompts == ("hi",)
    assert (request.max_tokens, request.n_top_logprobs) == (16, None)
    assert not request.echoes


def test_prompts_of_all_kinds() -> None:
    assert completion(prompt=["hi"]).prompts == ("hi",)
    assert completion(prompt=["a", "b"]).prompts == ("a", "b")
    assert completion(prompt=[1, 2]).prompts == ((1, 2),)
    assert completion(prompt=[[1, 2]]).prompts == ((1, 2),)
    assert completion(prompt=[[1, 2], [3]]).prompts == ((1, 2), (3,))


@pytest.mark.parametrize(
    "prompt",
    [
        *(None, 3, [], ["a", 1], [1, "a"], [-1], [True], {"a": 1}, [[]], [[1], "a"]),
        *(["a"] * 129, [[True]], [["a"]]),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bad_prompts_are_refused(prompt: object) -> None:
    with pytest.raises(ApiRefusal) as caught:
        completion(prompt=prompt)
    assert caught.value.param == "prompt"


def test_all_choices_together_are_bounded() -> None:
    assert completion(prompt=["a"] * 8, n=16).options.n == 16
    with pytest.raises(ApiRefusal, match="128 choices"):
        completion(prompt=["a"] * 9, n=16)


def test_echo_may_ask_for_no_token() -> None:
    request = completion(echo=True, max_tokens=0, logprobs=1)
    assert (request.echoes, request.max_tokens, request.n_top_logprobs) == (True, 0, 1)
    assert completion(logprobs=0).n_top_logprobs == 0
    assert completion(best_of=3, n=3).options.n == 3


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"max_tokens": 0, "echo": False}, "max_tokens"),
        ({"echo": 1}, "echo"),
        ({"logprobs": 21}, "logprobs"),
        ({"logprobs": -1}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"best_of": 2}, "best_of"),
        ({"best_of": 0}, "best_of"),
        ({"best_of": 1, "n": 2}, "best_of"),
        ({"suffix": "x"}, "suffix"),
        ({"messages": []}, "messages"),
        ({"tools": [{}]}, "tools"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
    ],
    ids=str,
)
def test_bad_values_name_their_field(fields: dict[str, object], param: str) -> None:
    with pytest.raises(ApiRefusal) as caught:
        completion(**fields)
    assert caught.value.param == param
