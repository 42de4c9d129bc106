"""The messages of a chat, as values for the model's template."""

from typing import Any

from p2pmoe.api.errors import ApiRefusal
from p2pmoe.api.field_lists import MESSAGE_IGNORED, MESSAGE_REFUSED
from p2pmoe.api.fields import Fields
from p2pmoe.api.strict_json import parse_object
from p2pmoe.text.template import ChatMessage, PastCall

__all__ = ["parse_messages"]

_MAX_MESSAGES = 10_000
_MAX_CALLS = 128
_MAX_NAME_CHARACTERS = 256
_MAX_ARGUMENTS = 1 << 20
_ROLES = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}


def parse_messages(fields: Fields) -> tuple[ChatMessage, ...]:
    """Take the field `messages`; ApiRefusal names the message that is wrong."""
    items = fields.items("messages", _MAX_MESSAGES)
    if not items:
        raise fields.wrong("messages", "must hold at least one message")
    return tuple(_message(item, f"messages[{n}]") for n, item in enumerate(items))


def _message(value: object, place: str) -> ChatMessage:
    fields = Fields(value, place)
    role = fields.text("role")
    if role not in _ROLES:
        raise fields.wrong("role", f"must be one of {', '.join(sorted(_ROLES))}")
    content = _content(fields, place)
    calls = _calls(fields, place, role)
    call_id = fields.text("tool_call_id")
    if role == "tool" and not call_id:
        raise fields.wrong("tool_call_id", "is missing")
    if role != "tool" and call_id is not None:
        raise fields.wrong("tool_call_id", "needs role to be tool")
    if content is None and role != "assistant":
        raise fields.wrong("content", "is missing")
    fields.unsupported(MESSAGE_REFUSED)
    fields.text("name")
    fields.ignore(MESSAGE_IGNORED)
    fields.finish()
    return ChatMessage(
        role=_ROLES[role], content=content or "", calls=calls, call_id=call_id
    )


def _calls(fields: Fields, place: str, role: str) -> tuple[PastCall, ...]:
    items = fields.items("tool_calls", _MAX_CALLS) or []
    if items and role != "assistant":
        raise fields.wrong("tool_calls", "needs role to be assistant")
    return tuple(
        _call(item, f"{place}.tool_calls[{n}]") for n, item in enumerate(items)
    )


def _call(value: object, place: str) -> PastCall:
    fields = Fields(value, place)
    call_id = _short(fields, "id")
    if fields.text("type") not in {"function", None}:
        raise fields.wrong("type", "must be function", code="unsupported_parameter")
    function = Fields(fields.take("function"), f"{place}.function")
    fields.ignore(("index",))
    fields.finish()
    name = _short(function, "name")
    text = function.text("arguments")
    if text is None or len(text) > _MAX_ARGUMENTS:
        raise function.wrong("arguments", "must be JSON as a string")
    function.finish()
    return PastCall(id=call_id, name=name, arguments=_arguments(function, text))


def _arguments(function: Fields, text: str) -> dict[str, Any]:
    try:
        return parse_object(text.encode() or b"{}")
    except (ApiRefusal, UnicodeEncodeError) as exc:
        reason = "must be a JSON object as a string"
        raise function.wrong("arguments", reason) from exc


def _short(fields: Fields, name: str) -> str:
    value = fields.text(name)
    if not value or len(value) > _MAX_NAME_CHARACTERS:
        raise fields.wrong(name, f"must have 1 to {_MAX_NAME_CHARACTERS} characters")
    return value


def _content(fields: Fields, name: str) -> str | None:
    value = fields.take("content")
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise fields.wrong("content", "must be a string or an array of text parts")
    return "".join(_part(item, f"{name}.content[{n}]") for n, item in enumerate(value))


def _part(value: object, name: str) -> str:
    fields = Fields(value, name)
    if fields.text("type") != "text":
        raise fields.wrong("type", "must be text", code="unsupported_parameter")
    text = fields.text("text")
    if text is None:
        raise fields.wrong("text", "is missing")
    fields.finish()
    return text
