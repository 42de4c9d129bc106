"""Messages in the shape that templates expect."""

import json

from p2pmoe.text.chat_message import (
    ChatMessage,
    PastCall,
    mapped,
    template_messages,
    texts_in,
)

CALL = PastCall(id="call_1", name="weather", arguments={"city": "Bern"})
HISTORY = (
    ChatMessage(role="user", content="How warm?"),
    ChatMessage(role="assistant", content="", calls=(CALL,)),
    ChatMessage(role="tool", content="20", call_id="call_1"),
)


def test_calls_and_results_are_told_with_the_name_of_the_tool() -> None:
    user, called, result = template_messages(HISTORY, json.dumps)
    assert user == {"role": "user", "content": "How warm?"}
    function = {"name": "weather", "arguments": '{"city": "Bern"}'}
    assert called["tool_calls"] == [
        {"id": "call_1", "type": "function", "function": function}
    ]
    assert (result["name"], result["tool_call_id"]) == ("weather", "call_1")


def test_a_result_without_its_call_has_no_name() -> None:
    (alone,) = template_messages(HISTORY[2:], json.dumps)
    assert "name" not in alone


def test_texts_are_changed_and_the_words_of_templates_stay() -> None:
    value = {"role": "user", "content": "user", "x": ["y", 1, None], "type": "odd"}
    assert mapped(value, str.upper) == {
        "role": "user",
        "content": "USER",
        "X": ["Y", 1, None],
        "type": "ODD",
    }
    assert set(texts_in(value)) == {*value, "user", "y", "odd"}
