"""One call as text, in each family's own form, to a value; None if it is no call.

Splitting alone, no patterns that search: a body of any length takes time in proportion
to it. Values hold no mark of their own format, as a model cannot write one.

Source: the chat templates of the models, and what their makers say of the formats.
"""

import json
import re
from collections.abc import Mapping, Sequence

from p2pmoe.text.tool_calls.calls import CalledTool
from p2pmoe.text.tool_calls.marks import DEEPSEEK, KIMI
from p2pmoe.text.tool_calls.parameters import KnownTool, read_json

__all__ = [
    "deepseek_calls",
    "glm_call",
    "json_call",
    "json_calls",
    "kimi_calls",
    "minimax_calls",
    "named_call",
    "qwen_coder_call",
]

_NAME = re.compile(r"[A-Za-z0-9_.-]{1,256}")
_FENCE = "```"


def json_call(body: str) -> list[CalledTool]:
    """Read `{"name": ..., "arguments": {...}}`: Hermes, Qwen."""
    return _calls([_object(_json(body))])


def json_calls(body: str) -> list[CalledTool]:
    """Read an array of such objects, or `NAME[ARGS]{...}`: Mistral."""
    name, mark, arguments = body.partition("[ARGS]")
    if mark:
        return _calls([named_call(name, arguments)])
    items = _json(body)
    if not isinstance(items, list):
        return []
    return _calls([_object(item) for item in items])


def deepseek_calls(body: str) -> list[CalledTool]:
    """Read calls of DeepSeek, with the arguments fenced (V3, R1) or bare (V3.1)."""
    parts = _parts(body, DEEPSEEK["call"], DEEPSEEK["call_end"])
    return _calls([_deepseek(part) for part in parts])


def kimi_calls(body: str) -> list[CalledTool]:
    """Read calls of Kimi-K2: `functions.NAME:NUMBER`, a mark, the arguments."""
    calls = []
    for part in _parts(body, KIMI["call"], KIMI["call_end"]):
        place, mark, arguments = part.partition(KIMI["separator"])
        name = place.strip().removeprefix("functions.").rpartition(":")[0]
        calls.append(named_call(name, arguments) if mark else None)
    return _calls(calls)


def glm_call(body: str, tools: Mapping[str, KnownTool]) -> list[CalledTool]:
    """Read a call of GLM-4.5: the name, then pairs of <arg_key> and <arg_value>."""
    name, *pairs = body.split("<arg_key>")
    arguments: dict[str, object] = {}
    for pair in pairs:
        key, mark, rest = pair.partition("</arg_key>")
        before, opened, rest = rest.partition("<arg_value>")
        value, closed, after = rest.partition("</arg_value>")
        if not (mark and opened and closed) or before.strip() or after.strip():
            return []
        arguments[key.strip()] = _value(tools, name, key, value)
    return _calls([_named(name, arguments)])


def qwen_coder_call(body: str, tools: Mapping[str, KnownTool]) -> list[CalledTool]:
    """Read a call of Qwen3-Coder: <function=NAME> with <parameter=KEY> within."""
    before, mark, rest = body.partition("<function=")
    inner, closed, after = rest.rpartition("</function>")
    name, opened, inner = inner.partition(">")
    if not (mark and closed and opened) or before.strip() or after.strip():
        return []
    arguments = _parameters(inner, "<parameter=", tools, name)
    return [] if arguments is None else _calls([_named(name, arguments)])


def minimax_calls(body: str, tools: Mapping[str, KnownTool]) -> list[CalledTool]:
    """Read calls of MiniMax-M2: <invoke name=...> with <parameter name=...> within."""
    calls = []
    for part in _parts(body, "<invoke name=", "</invoke>"):
        name, opened, inner = part.partition(">")
        name = name.strip().strip("\"'")
        arguments = _parameters(inner, "<parameter name=", tools, name)
        is_call = opened and arguments is not None
        calls.append(_named(name, arguments) if is_call else None)
    return _calls(calls)


def named_call(name: str, arguments: str) -> CalledTool | None:
    """Return a call of a name with arguments as JSON text; None if they are none."""
    value = _json(arguments)
    return _named(name, value) if isinstance(value, dict) else None


def _parameters(
    text: str, opening: str, tools: Mapping[str, KnownTool], name: str
) -> dict[str, object] | None:
    before, *parts = text.split(opening)
    if before.strip():
        return None
    arguments: dict[str, object] = {}
    for part in parts:
        key, opened, rest = part.partition(">")
        value, closed, after = rest.partition("</parameter>")
        if not (opened and closed) or after.strip():
            return None
        key = key.strip().strip("\"'")
        bare = value.removeprefix("\n").removesuffix("\n")
        arguments[key] = _value(tools, name, key, bare)
    return arguments


def _value(tools: Mapping[str, KnownTool], name: str, key: str, text: str) -> object:
    tool = tools.get(name.strip())
    return text if tool is None else tool.value(key.strip(), text)


def _parts(body: str, opening: str, closing: str) -> list[str]:
    """Return what stands between marks; what stands elsewhere makes it no part."""
    before, *parts = body.split(opening)
    if before.strip():
        return [""]
    inner = []
    for number, part in enumerate(parts, start=1):
        text, closed, after = part.partition(closing)
        whole = (closed or number == len(parts)) and not after.strip()
        inner.append(text if whole else "")
    return inner


def _deepseek(part: str) -> CalledTool | None:
    left, mark, right = part.partition(DEEPSEEK["separator"])
    if not mark:
        return None
    name, fence, arguments = right.partition(_FENCE + "json")
    if not fence:
        return named_call(left, right)
    return named_call(name, arguments.strip().removesuffix(_FENCE))


def _object(value: object) -> CalledTool | None:
    """Read an object with a name and arguments, which may be text that is JSON."""
    if not isinstance(value, dict):
        return None
    name = value.get("name")
    arguments = value.get("arguments", value.get("parameters", {}))
    if isinstance(arguments, str):
        arguments = _json(arguments)
    return _named(name, arguments)


def _named(name: object, arguments: object) -> CalledTool | None:
    if not isinstance(name, str) or not _NAME.fullmatch(name.strip()):
        return None
    if not isinstance(arguments, dict):
        return None
    text = json.dumps(arguments, ensure_ascii=False)
    if any("\ud800" <= char <= "\udfff" for char in text):  # half a pair, escaped
        text = json.dumps(arguments)
    return CalledTool(name.strip(), text)


def _json(text: str) -> object:
    try:
        return read_json(text)
    except ValueError:
        return None


def _calls(found: Sequence[CalledTool | None]) -> list[CalledTool]:
    """Return the calls, or none if one of them is none."""
    whole = [call for call in found if call is not None]
    return whole if len(whole) == len(found) else []
