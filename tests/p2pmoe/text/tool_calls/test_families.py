"""Each family's calls, whole and in pieces of any size; mistakes stay text."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from p2pmoe.text.tool_calls.calls import CalledTool, Said, Thought
from p2pmoe.text.tool_calls.families import FAMILIES, ToolFamily, find_family
from p2pmoe.text.tool_calls.parameters import known_tool
from tests.support.chat_templates import TEMPLATES
from tests.support.tool_templates import ANSWERS, TOOL_TEMPLATES

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
}
WEATHER = known_tool("weather", json.dumps(SCHEMA))
CALL = CalledTool("weather", '{"city": "Bern"}')
BY_NAME = {family.name: family for family in FAMILIES}
NAMES = sorted(ANSWERS)


def read(
    family: ToolFamily, pieces: Sequence[str]
) -> tuple[str, str, list[CalledTool]]:
    reader = family.new_reader([WEATHER])
    items = [item for piece in pieces for item in reader.push(piece)]
    items += reader.finish()
    assert reader.finish() == []
    return (
        "".join(item.text for item in items if isinstance(item, Said)),
        "".join(item.text for item in items if isinstance(item, Thought)),
        [item for item in items if isinstance(item, CalledTool)],
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_family_is_found_by_its_template(name: str) -> None:
    found = find_family(TOOL_TEMPLATES[name])
    assert found is BY_NAME[name]


def test_templates_without_calls_have_no_family() -> None:
    for name in ("olmoe", "mixtral", "trained-marks"):
        assert find_family(TEMPLATES[name]) is None
    found = find_family("<\uff5ctool\u2581calls\u2581begin\uff5c>")
    assert found is BY_NAME["deepseek-v3.1"]


@pytest.mark.parametrize("name", NAMES)
def test_a_call_is_read_letter_by_letter(name: str) -> None:
    for text in (ANSWERS[name], "\n" + ANSWERS[name]):
        assert read(BY_NAME[name], list(text)) == ("", "", [CALL])


@given(st.sampled_from(NAMES), st.data())
def test_pieces_of_any_size_give_the_same(name: str, data: st.DataObject) -> None:
    before = "" if name == "harmony" else data.draw(st.sampled_from(["", "Hm. ", "<"]))
    text = before + ANSWERS[name]
    whole = read(BY_NAME[name], [text])
    cuts = sorted(data.draw(st.sets(st.integers(0, len(text)))))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    assert read(BY_NAME[name], pieces) == whole
    assert whole[2] == [CALL]


_MARKS = sorted({mark for family in FAMILIES for mark in family.controls})
_PARTS = st.sampled_from([*_MARKS, "weather", "{", '"}', "\n", " ", "é", "to=", "<inv"])


@given(st.sampled_from(FAMILIES), st.lists(_PARTS, max_size=20))
def test_no_text_whatever_raises_and_calls_are_json(
    family: ToolFamily, parts: list[str]
) -> None:
    _, _, calls = read(family, parts)
    for call in calls:
        assert isinstance(json.loads(call.arguments), dict)


@given(st.sampled_from(FAMILIES), st.text("<>{}[]ab \n", max_size=30))
def test_text_without_marks_stays_as_it_is(family: ToolFamily, text: str) -> None:
    assert read(family, list(text))[0] in {text, "" if text.isspace() else text}


@pytest.mark.parametrize("name", sorted(set(NAMES) - {"harmony"}))
def test_a_cut_call_is_text(name: str) -> None:
    text = ANSWERS[name][: ANSWERS[name].index("Bern")]
    said, _, calls = read(BY_NAME[name], ["Well.\n", text])
    assert calls == []
    assert said == "Well.\n" + text


def test_several_calls_and_text_between_them() -> None:
    text = f"One.\n{ANSWERS['hermes']}\n\n{ANSWERS['hermes']}\nDone."
    said, _, calls = read(BY_NAME["hermes"], list(text))
    assert (said, calls) == ("One.Done.", [CALL, CALL])


@pytest.mark.parametrize(
    "body",
    [
        *("", "[]", '{"name": 3}', '{"name": "a b"}', "[" * 5000, "weather(city)"),
        *('{"name": "x", "arguments": [1]}', '{"name": "x", "arguments": {"a": NaN}}'),
    ],
    ids=range(8),
)
def test_a_malformed_call_stays_text(body: str) -> None:
    text = f"See: <tool_call>{body}</tool_call> so."
    assert read(BY_NAME["hermes"], list(text)) == (text, "", [])


def test_values_have_the_types_of_the_schema() -> None:
    text = (
        '<minimax:tool_call><invoke name="weather"><parameter name="city">7'
        '</parameter><parameter name="days">7</parameter></invoke>'
        '<invoke name="weather"><parameter name="days">many</parameter></invoke>'
        "</minimax:tool_call>"
    )
    _, _, calls = read(BY_NAME["minimax"], [text])
    assert [json.loads(call.arguments) for call in calls] == [
        {"city": "7", "days": 7},
        {"days": "many"},
    ]


def test_channels_of_gpt_oss() -> None:
    text = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>"
        "commentary<|message|>I look.<|end|><|start|>assistant to=functions.weather"
        f"<|channel|>commentary <|constrain|>json<|message|>{CALL.arguments}<|end|>"
        "<|start|>assistant<|channel|>final<|message|>Warm."
    )
    assert read(BY_NAME["harmony"], list(text)) == ("I look.Warm.", "Hm.", [CALL])


def test_an_answer_without_channels_is_text() -> None:
    assert read(BY_NAME["harmony"], list("to be or not")) == ("to be or not", "", [])
    assert read(BY_NAME["harmony"], ["Hello <|end|>"])[0] == "Hello "
    broken = "<|channel|>commentary to=functions.weather<|message|>{oops"
    assert read(BY_NAME["harmony"], [broken]) == ("{oops", "", [])


def test_long_nonsense_takes_time_in_proportion() -> None:
    for name in ("glm", "minimax", "qwen-coder", "kimi", "deepseek"):
        family = BY_NAME[name]
        for mark in family.controls:
            read(family, [family.controls[0], mark * 20_000])
