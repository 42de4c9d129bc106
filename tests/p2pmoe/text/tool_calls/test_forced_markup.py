"""Forced calls of formats without JSON; test_forced speaks them as well."""

import json

import pytest

from p2pmoe.text.tool_calls.forced_markup import (
    glm_call,
    minimax_call,
    qwen_coder_call,
)
from p2pmoe.text.tool_calls.parameters import known_tool

SCHEMA = {
    "type": "object",
    "$defs": {"day": {"type": "integer"}},
    "properties": {
        "city": {"type": "string", "enum": ["Bern", ""]},
        "note": {"type": "string"},
        "days": {"type": "array", "items": {"$ref": "#/$defs/day"}},
        "either": {"type": ["string", "integer"]},
        "any": True,
    },
    "required": ["city"],
}
TOOL = known_tool("weather", json.dumps(SCHEMA))


@pytest.mark.parametrize("make", [glm_call, minimax_call, qwen_coder_call])
def test_each_argument_has_a_rule(make) -> None:
    rules = make([TOOL], {}).splitlines()
    (case,) = [line for line in rules if line.startswith("case_0:")]
    assert "value_0_0 value_0_1? value_0_2? value_0_3? value_0_4?" in case
    values = [line for line in rules if line.startswith("value_")]
    assert '("Bern")' in values[0]
    assert " TEXT " in values[1]
    assert '"items": {"$ref": "#/$defs/day"}, "$defs": {"day"' in values[2]
    assert " TEXT " in values[3]
    assert " TEXT " in values[4]


def test_marks_that_are_control_tokens_go_by_their_id() -> None:
    assert "<[9]>" in glm_call([TOOL], {"<arg_key>": 9})
    assert "<[9]>" not in minimax_call([TOOL], {"<arg_key>": 9})


def test_a_tool_without_arguments() -> None:
    rules = minimax_call([known_tool("time", '{"properties": 3}')], {})
    assert "value_" not in rules
