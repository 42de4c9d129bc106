"""Tools and how they may be chosen."""

import json

import pytest

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.fields import Fields
from p2pmoe.api.tools import ToolMode, ToolUse, parse_tools

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "How it is outside.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        "strict": True,
    },
}
TIME = {"type": "function", "function": {"name": "time"}}
NAMED = {"type": "function", "function": {"name": "time"}}


def use(**fields: object) -> ToolUse | None:
    read = Fields({"tools": [WEATHER, TIME], **fields})
    tool_use = parse_tools(read)
    read.finish()
    return tool_use


def test_tools_may_be_called_by_default() -> None:
    made = use()
    assert made is not None
    assert (made.mode, made.name, made.parallel) == (ToolMode.AUTO, None, True)
    weather, hour = made.tools
    assert weather.spec["function"]["description"] == "How it is outside."
    assert "strict" not in weather.spec["function"]
    assert json.loads(weather.schema)["properties"] == {"city": {"type": "string"}}
    assert json.loads(hour.schema) == {"type": "object", "properties": {}}
    assert made.callable_tools == made.tools


def test_choices() -> None:
    assert use(tool_choice="none") is None
    assert use(tools=[], tool_choice="auto", parallel_tool_calls=True) is None
    required = use(tool_choice="required", parallel_tool_calls=False)
    assert required is not None
    assert (required.mode, required.parallel) == (ToolMode.REQUIRED, False)
    named = use(tool_choice=NAMED)
    assert named is not None
    assert (named.mode, named.name) == (ToolMode.NAMED, "time")
    assert [tool.name for tool in named.callable_tools] == ["time"]


def tool(**function: object) -> dict[str, object]:
    return {"tools": [{"type": "function", "function": {"name": "x", **function}}]}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"tools": "x"}, "tools"),
        ({"tools": [TIME] * 129}, "tools"),
        ({"tools": [TIME, TIME]}, "tools"),
        ({"tools": [3]}, "tools[0]"),
        ({"tools": [{"type": "custom", "custom": {}}]}, "tools[0].type"),
        ({"tools": [{"type": "function"}]}, "tools[0].function"),
        ({"tools": [{**TIME, "x": 1}]}, "tools[0].x"),
        (tool(name=""), "tools[0].function.name"),
        (tool(name="a b"), "tools[0].function.name"),
        (tool(name="x" * 65), "tools[0].function.name"),
        (tool(description=3), "tools[0].function.description"),
        (tool(description="x" * 70_000), "tools[0].function.description"),
        (tool(parameters=[]), "tools[0].function.parameters"),
        (tool(parameters={"x": "y" * 70_000}), "tools[0].function.parameters"),
        (tool(strict="yes"), "tools[0].function.strict"),
        (tool(other=1), "tools[0].function.other"),
        ({"tools": None, "tool_choice": "required"}, "tool_choice"),
        ({"tools": None, "tool_choice": NAMED}, "tool_choice"),
        ({"tool_choice": "always"}, "tool_choice"),
        ({"tool_choice": 3}, "tool_choice"),
        ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.type"),
        (
            {"tool_choice": {"type": "function", "function": {"name": "nothing"}}},
            "tool_choice.function.name",
        ),
        ({"parallel_tool_calls": 1}, "parallel_tool_calls"),
    ],
    ids=range(23),
)
def test_what_is_wrong_is_named(fields: dict[str, object], param: str) -> None:
    with pytest.raises(ApiRefusal) as caught:
        use(**fields)
    assert caught.value.param == param
