"""The fields `tools`, `tool_choice` and `parallel_tool_calls`, checked.

A tool goes to the model's template with its name, description and parameters.
"""

import re
from dataclasses import dataclass
from enum import Enum, unique
from typing import Any

from p2pmoe.api.fields import Fields
from p2pmoe.api.response_formats import schema_text

__all__ = ["Tool", "ToolMode", "ToolUse", "parse_tools"]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_MAX_TOOLS = 128
_MAX_DESCRIPTION = 1 << 16
_UNSUPPORTED = "unsupported_parameter"


@unique
class ToolMode(Enum):
    """Whether the model may call a tool, must call one, or must call a certain one."""

    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One function: `spec` as given, `schema` that of its arguments as text."""

    name: str
    spec: dict[str, Any]
    schema: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolUse:
    """The tools of a request; `name` is the one that mode NAMED asks for."""

    tools: tuple[Tool, ...]
    mode: ToolMode
    name: str | None
    parallel: bool

    @property
    def callable_tools(self) -> tuple[Tool, ...]:
        """Those that the choice leaves."""
        return tuple(t for t in self.tools if self.name in {None, t.name})


def parse_tools(fields: Fields) -> ToolUse | None:
    """Take the three fields; None if no tool may be called.

    Raises:
        ApiRefusal: A tool or a choice that is wrong, or a choice without tools.
    """
    items = fields.items("tools", _MAX_TOOLS) or []
    tools = tuple(_tool(item, f"tools[{n}]") for n, item in enumerate(items))
    names = [tool.name for tool in tools]
    for number, name in enumerate(names):
        if name in names[:number]:
            raise fields.wrong("tools", f"name {name!r} twice")
    mode, chosen = _choice(fields, names)
    parallel = fields.take("parallel_tool_calls")
    if not isinstance(parallel, bool | None):
        raise fields.wrong("parallel_tool_calls", "must be true or false")
    if not tools or mode is None:
        return None
    return ToolUse(tools=tools, mode=mode, name=chosen, parallel=parallel is not False)


def _choice(fields: Fields, names: list[str]) -> tuple[ToolMode | None, str | None]:
    """Return how tools may be called, None for not at all, and a name."""
    value = fields.take("tool_choice")
    if value is None or value == "auto":
        return ToolMode.AUTO, None
    if value == "none":
        return None, None
    if not names:
        raise fields.wrong("tool_choice", "needs tools")
    if value == "required":
        return ToolMode.REQUIRED, None
    if isinstance(value, str):
        raise fields.wrong("tool_choice", "must be none, auto, required or a function")
    own = Fields(value, "tool_choice")
    kind = own.text("type")
    if kind != "function":
        raise own.wrong("type", "must be function", code=_UNSUPPORTED)
    function = Fields(own.take("function"), "tool_choice.function")
    name = function.text("name")
    function.finish()
    own.finish()
    if name not in names:
        raise function.wrong("name", "is none of the tools")
    return ToolMode.NAMED, name


def _tool(value: object, place: str) -> Tool:
    fields = Fields(value, place)
    if fields.text("type") != "function":
        raise fields.wrong("type", "must be function", code=_UNSUPPORTED)
    given = fields.take("function")
    fields.finish()
    function = Fields(given, f"{place}.function")
    name = function.text("name")
    if name is None or not _NAME.fullmatch(name):
        reason = "must be 1 to 64 letters, digits, dots, dashes or underlines"
        raise function.wrong("name", reason)
    description = function.text("description") or ""
    if len(description) > _MAX_DESCRIPTION:
        reason = f"must have at most {_MAX_DESCRIPTION} characters"
        raise function.wrong("description", reason)
    function.flag("strict")
    parameters = function.take("parameters")
    function.finish()
    param = f"{place}.function.parameters"
    empty = {"type": "object", "properties": {}}
    schema = schema_text(empty if parameters is None else parameters, param)
    spec = {
        "name": name,
        "description": description,
        "parameters": empty if parameters is None else parameters,
    }
    return Tool(name=name, spec={"type": "function", "function": spec}, schema=schema)
