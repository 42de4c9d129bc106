"""Messages of a chat: every kind, and what is wrong named by its place."""

import pytest

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.fields import Fields
from p2pmoe.api.messages import parse_messages
from p2pmoe.text.template import ChatMessage, PastCall

USER = {"role": "user", "content": "hi"}
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Bern"}'},
}


def messages(items: object) -> tuple[ChatMessage, ...]:
    return parse_messages(Fields({"messages": items}))


def test_messages_of_all_kinds() -> None:
    assert messages(
        [
            {"role": "developer", "content": "be kind"},
            {
                "role": "user",
                "content": [{"type": "text", "text": "a"}] * 2,
                "name": "n",
                "type": "text",
            },
            {"role": "assistant", "content": None, "refusal": None, "tool_calls": []},
            {"role": "assistant", "tool_calls": [CALL], "reasoning_content": "hm"},
            {"role": "tool", "content": "20", "tool_call_id": "call_1"},
        ]
    ) == (
        ChatMessage(role="system", content="be kind"),
        ChatMessage(role="user", content="aa"),
        ChatMessage(role="assistant", content=""),
        ChatMessage(
            role="assistant",
            content="",
            calls=(PastCall(id="call_1", name="weather", arguments={"city": "Bern"}),),
        ),
        ChatMessage(role="tool", content="20", call_id="call_1"),
    )


def calling(**changes: object) -> list[object]:
    return [{"role": "assistant", "tool_calls": [{**CALL, **changes}]}]


def with_arguments(text: object) -> list[object]:
    return calling(function={"name": "weather", "arguments": text})


@pytest.mark.parametrize(
    ("items", "param"),
    [
        ([], "messages"),
        (None, "messages"),
        ("hi", "messages"),
        ([USER] * 10_001, "messages"),
        (["hi"], "messages[0]"),
        ([{"role": "wizard", "content": "x"}], "messages[0].role"),
        ([{"content": "x"}], "messages[0].role"),
        ([{"role": "tool", "content": "x"}], "messages[0].tool_call_id"),
        ([{**USER, "tool_call_id": "1"}], "messages[0].tool_call_id"),
        ([{"role": "tool", "tool_call_id": "1"}], "messages[0].content"),
        ([{"role": "user"}], "messages[0].content"),
        ([{"role": "user", "content": 3}], "messages[0].content"),
        ([{"role": "user", "content": ["x"]}], "messages[0].content[0]"),
        (
            [{"role": "user", "content": [{"type": "image_url"}]}],
            "messages[0].content[0].type",
        ),
        (
            [{"role": "user", "content": [{"type": "text"}]}],
            "messages[0].content[0].text",
        ),
        ([{**USER, "extra": 1}], "messages[0].extra"),
        ([{**USER, "audio": {"id": "1"}}], "messages[0].audio"),
        ([{**USER, "function_call": {"name": "x"}}], "messages[0].function_call"),
        ([{**USER, "tool_calls": [CALL]}], "messages[0].tool_calls"),
        (calling(id=""), "messages[0].tool_calls[0].id"),
        (calling(id="x" * 257), "messages[0].tool_calls[0].id"),
        (calling(type="custom"), "messages[0].tool_calls[0].type"),
        (calling(function=None), "messages[0].tool_calls[0].function"),
        (with_arguments(None), "messages[0].tool_calls[0].function.arguments"),
        (with_arguments({}), "messages[0].tool_calls[0].function.arguments"),
        (with_arguments("[1]"), "messages[0].tool_calls[0].function.arguments"),
        (with_arguments("{"), "messages[0].tool_calls[0].function.arguments"),
        (with_arguments('{"a":NaN}'), "messages[0].tool_calls[0].function.arguments"),
        (with_arguments("[" * 9999), "messages[0].tool_calls[0].function.arguments"),
        (with_arguments("\ud800"), "messages[0].tool_calls[0].function.arguments"),
    ],
    ids=range(30),
)
def test_b19_bad_messages_name_their_place(items: object, param: str) -> None:
    with pytest.raises(ApiRefusal) as caught:
        messages(items)
    assert caught.value.param == param


def test_a_call_without_arguments_has_an_empty_object() -> None:
    (message,) = messages(with_arguments(""))
    assert message.calls[0].arguments == {}
