"""What a chat template makes of tools: found out by rendering a small example.

A template shows tools if the name of one that is given comes out. It takes calls and
their results if both come out, with the arguments either as an object (most families
write it with `tojson`) or as text (some join it to other text).
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from p2pmoe.text.chat_message import ChatMessage, PastCall, template_messages
from p2pmoe.text.errors import TemplateError

__all__ = ["NO_TOOLS", "TemplateTools", "find_tools"]

_NAME = "probe_tool_name"
_KEY = "probe_argument"
_VALUE = "probe value"
_RESULT = "probe result"
_TOOL = {
    "type": "function",
    "function": {
        "name": _NAME,
        "description": "probe",
        "parameters": {
            "type": "object",
            "properties": {_KEY: {"type": "string", "description": "probe"}},
            "required": [_KEY],
        },
    },
}
_ASKED = ChatMessage(role="user", content="probe")
_CALLED = (
    _ASKED,
    ChatMessage(
        role="assistant",
        content="",
        calls=(PastCall(id="call00000", name=_NAME, arguments={_KEY: _VALUE}),),
    ),
    ChatMessage(role="tool", content=_RESULT, call_id="call00000"),
)

Render = Callable[[list[dict[str, Any]], Sequence[dict[str, Any]]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateTools:
    """What a template can do with tools."""

    shows_tools: bool
    takes_calls: bool
    arguments_as_text: bool = False

    def write_arguments(self, arguments: Any) -> object:  # noqa: ANN401 - JSON
        """Return the arguments of a past call as this template wants them."""
        if self.arguments_as_text:
            return json.dumps(arguments, ensure_ascii=False)
        return arguments


NO_TOOLS = TemplateTools(shows_tools=False, takes_calls=False)


def find_tools(render: Render) -> TemplateTools:
    """Return what a template can do; `render` raises TemplateError if it fails."""
    shown = _rendered(render, template_messages((_ASKED,), _as_object))
    if shown is None or _NAME not in shown:
        return NO_TOOLS
    as_object = _rendered(render, template_messages(_CALLED, _as_object))
    if _is_told(as_object) and f"'{_KEY}'" not in str(as_object):  # Python's own form
        return TemplateTools(shows_tools=True, takes_calls=True)
    as_text = _rendered(render, template_messages(_CALLED, json.dumps))
    return TemplateTools(
        shows_tools=True, takes_calls=_is_told(as_text), arguments_as_text=True
    )


def _rendered(render: Render, messages: list[dict[str, Any]]) -> str | None:
    try:
        return render(messages, [_TOOL])
    except TemplateError:
        return None


def _is_told(prompt: str | None) -> bool:
    return prompt is not None and all(
        prompt.count(text) >= least
        for text, least in ((_NAME, 2), (_KEY, 2), (_VALUE, 1), (_RESULT, 1))
    )


def _as_object(arguments: Any) -> object:  # noqa: ANN401 - JSON
    return arguments
