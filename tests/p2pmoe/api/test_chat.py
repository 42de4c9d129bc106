"""The fields of a chat alone."""

import pytest

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.requests import Conversation
from p2pmoe.text.template import ChatMessage
from tests.p2pmoe.api.test_requests import chat

TOOL = {"type": "function", "function": {"name": "weather"}}


def test_defaults() -> None:
    request = chat()
    message = ChatMessage(role="user", content="hi")
    assert request.prompts == (Conversation(messages=(message,)),)
    assert (request.max_tokens, request.n_top_logprobs) == (None, None)
    assert request.response_format is None


def test_differing_limits_are_refused() -> None:
    assert chat(max_completion_tokens=9).max_tokens == 9
    assert chat(max_tokens=5, max_completion_tokens=5).max_tokens == 5
    with pytest.raises(ApiRefusal, match="differs"):
        chat(max_tokens=5, max_completion_tokens=6)


def test_b21_log_probabilities_and_their_alternatives() -> None:
    assert chat(logprobs=False).n_top_logprobs is None
    assert chat(logprobs=True).n_top_logprobs == 0
    assert chat(logprobs=True, top_logprobs=0).n_top_logprobs == 0
    assert chat(logprobs=True, top_logprobs=20).n_top_logprobs == 20


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": -1}, "top_logprobs"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": False, "top_logprobs": 0}, "top_logprobs"),
        ({"logprobs": 3}, "logprobs"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"reasoning_effort": 3}, "reasoning_effort"),
        ({"echo": True}, "echo"),
        ({"best_of": 1}, "best_of"),
        ({"prompt": "x"}, "prompt"),
        (
            {"tools": [TOOL], "response_format": {"type": "json_object"}},
            "response_format",
        ),
    ],
    ids=str,
)
def test_bad_values_name_their_field(fields: dict[str, object], param: str) -> None:
    with pytest.raises(ApiRefusal) as caught:
        chat(**fields)
    assert caught.value.param == param


def test_a_format_passes_with_tools_that_may_not_be_called() -> None:
    form = {"type": "json_object"}
    request = chat(tools=[TOOL], tool_choice="none", response_format=form)
    assert request.response_format is not None
