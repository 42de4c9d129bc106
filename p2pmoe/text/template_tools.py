"""What a chat template makes of tools: found out by rendering a small example.

A template shows tools if the name of one that is given comes out. It takes calls and
their results if both come out, with the arguments either as an object (most families
write it with `tojson`) or as text (some join it to other text). Some say which tool is
called by the call's id alone (Kimi-K2), some refuse ids but of nine letters and digits
(Mistral): their ids are written anew.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, unique
from itertools import product
from typing import Any

from p2pmoe.text.chat_message import ChatMessage, PastCall, template_messages
from p2pmoe.text.errors import TemplateError

__all__ = ["NO_TOOLS", "CallIds", "TemplateTools", "find_tools"]

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
_ID = "call_0123456789abcdef01234567"  # as ours are
_ASKED = ChatMessage(role="user", content="probe")
_CALLED = (
    _ASKED,
    ChatMessage(
        role="assistant",
        content="",
        calls=(PastCall(id=_ID, name=_NAME, arguments={_KEY: _VALUE}),),
    ),
    ChatMessage(role="tool", content=_RESULT, call_id=_ID),
)

Render = Callable[[list[dict[str, Any]], Sequence[dict[str, Any]]], str]


@unique
class CallIds(Enum):
    """What ids of calls a template wants."""

    AS_GIVEN = "as given"
    NAMED = "functions.NAME:NUMBER"
    SHORT = "nine digits"


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateTools:
    """What a template can do with tools."""

    shows_tools: bool
    takes_calls: bool
    arguments_as_text: bool = False
    ids: CallIds = CallIds.AS_GIVEN

    def messages(self, messages: Sequence[ChatMessage]) -> list[dict[str, Any]]:
        """Return a conversation as this template wants it."""
        return template_messages(_renamed(messages, self.ids), self._arguments)

    def _arguments(self, arguments: Any) -> object:  # noqa: ANN401 - JSON
        if self.arguments_as_text:
            return json.dumps(arguments, ensure_ascii=False)
        return arguments


NO_TOOLS = TemplateTools(shows_tools=False, takes_calls=False)


def find_tools(render: Render) -> TemplateTools:
    """Return what a template can do; `render` raises TemplateError if it fails."""
    shown = _rendered(render, NO_TOOLS.messages((_ASKED,)))
    if shown is None or _NAME not in shown:
        return NO_TOOLS
    for ids, as_text in product(CallIds, (False, True)):
        own = TemplateTools(
            shows_tools=True, takes_calls=True, arguments_as_text=as_text, ids=ids
        )
        if _is_told(_rendered(render, own.messages(_CALLED))):
            return own
    return TemplateTools(shows_tools=True, takes_calls=False)


def _renamed(messages: Sequence[ChatMessage], ids: CallIds) -> Sequence[ChatMessage]:
    """Return the messages with the ids of calls that a template wants."""
    if ids is CallIds.AS_GIVEN:
        return messages
    calls = [call for message in messages for call in message.calls]
    new = {
        call.id: f"functions.{call.name}:{n}" if ids is CallIds.NAMED else f"{n:09d}"
        for n, call in enumerate(calls)
    }
    return [
        replace(
            message,
            calls=tuple(replace(call, id=new[call.id]) for call in message.calls),
            call_id=new.get(message.call_id or "", message.call_id),
        )
        for message in messages
    ]


def _rendered(render: Render, messages: list[dict[str, Any]]) -> str | None:
    try:
        return render(messages, [_TOOL])
    except TemplateError:
        return None


def _is_told(prompt: str | None) -> bool:
    """Whether tool, call and result came out, arguments not in Python's own form."""
    return (
        prompt is not None
        and f"'{_KEY}'" not in prompt
        and all(
            prompt.count(text) >= least
            for text, least in ((_NAME, 2), (_KEY, 2), (_VALUE, 1), (_RESULT, 1))
        )
    )
