"""What a conversation is made of, as a chat template gets it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

__all__ = ["ChatMessage", "PastCall", "mapped", "template_messages", "texts_in"]

_KEYS = frozenset(
    {
        *("role", "content", "tool_calls", "tool_call_id", "id", "type", "function"),
        *("name", "arguments", "description", "parameters", "properties", "required"),
        *("items", "enum", "default", "additionalProperties", "anyOf", "oneOf"),
    }
)
_WORDS = frozenset(
    {
        *("system", "user", "assistant", "tool", "function", "object", "array"),
        *("string", "number", "integer", "boolean", "null"),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastCall:
    """A call of a tool that the model made before; `arguments` is a JSON object."""

    id: str
    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatMessage:
    """One message: who speaks ("system", "user", "assistant", "tool") and what.

    `calls` are an assistant's; `call_id` is the call whose result a tool tells.
    """

    role: str
    content: str
    calls: tuple[PastCall, ...] = ()
    call_id: str | None = None


def template_messages(
    messages: Sequence[ChatMessage], write_arguments: Callable[[Any], object]
) -> list[dict[str, Any]]:
    """Return the messages in the shape that templates expect.

    `write_arguments` makes of a call's arguments what the template wants: an object,
    or its text. A tool's result carries the name of the tool, if its call is there.
    """
    names = {call.id: call.name for message in messages for call in message.calls}
    made: list[dict[str, Any]] = []
    for message in messages:
        fields: dict[str, Any] = {"role": message.role, "content": message.content}
        if message.calls:
            fields["tool_calls"] = [
                _call_fields(call, write_arguments) for call in message.calls
            ]
        if message.call_id is not None:
            fields["tool_call_id"] = message.call_id
            if message.call_id in names:
                fields["name"] = names[message.call_id]
        made.append(fields)
    return made


def _call_fields(
    call: PastCall, write_arguments: Callable[[Any], object]
) -> dict[str, Any]:
    function = {"name": call.name, "arguments": write_arguments(call.arguments)}
    return {"id": call.id, "type": "function", "function": function}


def mapped(value: Any, change: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON
    """Return a JSON value with its texts changed, keys included.

    Words that templates look for stay: keys of messages and of JSON schemas, and what
    stands at "role" and "type" if it is such a word.
    """
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {
            key if key in _KEYS else change(key): item
            if key in {"role", "type"} and isinstance(item, str) and item in _WORDS
            else mapped(item, change)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [mapped(item, change) for item in value]
    return value


def texts_in(value: object) -> Iterator[str]:
    """Yield every text in a JSON value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield key
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)
