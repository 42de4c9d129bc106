"""Prompts with tools; what is refused of others is in test_preparation."""

import pytest

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.prompts import encode_prompt
from p2pmoe.api.requests import Conversation
from p2pmoe.api.served_model import ServedModel
from p2pmoe.text.template import ChatMessage, PastCall
from tests.p2pmoe.api.test_tools import use
from tests.support.api import small_model
from tests.support.tool_templates import TOOL_TEMPLATES

ASKED = ChatMessage(role="user", content="How warm?")
CALL = PastCall(id="1", name="weather", arguments={"city": "Bern"})
CALLED = ChatMessage(role="assistant", content="", calls=(CALL,))
RESULT = ChatMessage(role="tool", content="20 degrees", call_id="1")


def text(prompt: Conversation, model: ServedModel) -> str:
    return model.tokenizer.decode(encode_prompt(prompt, model)).decode()


def hermes() -> ServedModel:
    return small_model(n_context=4096, template=TOOL_TEMPLATES["hermes"])


def test_tools_calls_and_results_reach_the_model() -> None:
    prompt = Conversation(messages=(ASKED, CALLED, RESULT), tool_use=use())
    told = text(prompt, hermes())
    assert "How it is outside." in told
    assert '{"name": "weather", "arguments": {"city": "Bern"}}' in told
    assert "20 degrees" in told


@pytest.mark.parametrize(
    ("messages", "param"),
    [
        ((ASKED,), "tools"),
        ((ASKED, CALLED), "messages[1].tool_calls"),
        ((ASKED, RESULT), "messages[1].role"),
    ],
)
def test_a_template_without_tools_refuses_them(
    messages: tuple[ChatMessage, ...], param: str
) -> None:
    tool_use = use() if param == "tools" else None
    with pytest.raises(ApiRefusal) as caught:
        encode_prompt(Conversation(messages=messages, tool_use=tool_use), small_model())
    assert (caught.value.param, caught.value.code) == (param, "unsupported_parameter")
    assert caught.value.status == 400


def test_how_long_to_think_is_for_templates_that_know_it() -> None:
    asked = Conversation(messages=(ASKED,), effort="high")
    with pytest.raises(ApiRefusal) as caught:
        encode_prompt(asked, small_model())
    assert caught.value.param == "reasoning_effort"
    template = "{% if reasoning_effort is defined %}{{ reasoning_effort }}{% endif %}."
    model = small_model(template=template)
    assert text(asked, model) == "high."
    assert text(Conversation(messages=(ASKED,)), model) == "."
