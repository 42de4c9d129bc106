import json

import pytest

from p2pmoe.text.tool_calls.parameters import (
    argument_value,
    declared_types,
    known_tool,
    read_json,
)


def types_of(schema: object) -> frozenset[str]:
    tool = known_tool("x", json.dumps({"properties": {"p": schema}}))
    return tool.types["p"]


def test_types_that_are_plainly_there() -> None:
    assert types_of({"type": "integer"}) == {"integer"}
    assert types_of({"type": ["string", "null"]}) == {"string", "null"}
    assert types_of({"anyOf": [{"type": "array"}, {"$ref": "#/x"}]}) == {"array"}
    assert types_of({"enum": ["a", None, 1, True]}) == {
        *("string", "null", "integer", "boolean")
    }
    assert types_of({"const": 1.5}) == {"number"}
    assert declared_types({"const": [1]}) == {"array"}
    for unknown in ({}, True, {"type": 3}, {"anyOf": 3}, {"$ref": "#/x"}):
        assert types_of(unknown) == frozenset()
    assert known_tool("x", '{"properties": 3}').types == {}


@pytest.mark.parametrize(
    ("text", "types", "value"),
    [
        ("7", {"integer"}, 7),
        ("7", {"string"}, "7"),
        ("7", set(), "7"),
        ("7", {"string", "integer"}, "7"),
        ("null", {"string", "null"}, None),
        ("null", {"string", "integer"}, "null"),
        ('{"a": 1}', {"object"}, {"a": 1}),
        ('["a"]', {"array", "string"}, ["a"]),
        ("seven", {"integer"}, "seven"),
        ("NaN", {"number"}, "NaN"),
        ("true", {"boolean"}, True),
    ],
)
def test_values(text: str, types: set[str], value: object) -> None:
    assert argument_value(text, frozenset(types)) == value


def test_values_of_a_tool() -> None:
    tool = known_tool("x", '{"properties": {"n": {"type": "integer"}}}')
    assert tool.value("n", "3") == 3
    assert tool.value("unknown", "3") == "3"


def test_json_is_strict_and_of_any_depth() -> None:
    for wrong in ("NaN", "[" * 100_000, "{", "9" * 10_000):
        with pytest.raises(ValueError, match=r".*"):
            read_json(wrong)
