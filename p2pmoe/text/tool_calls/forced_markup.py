"""Grammars of calls in the formats that write each argument between marks of its own.

Arguments come in the schema's order, those that are not required or not. One whose
type is text, without a list of values, is any text without the character `<`, by which
marks begin; another is JSON of its own schema. So a text's length, pattern and format
are the one part of a schema that such a call may miss.

Source: as for `forced`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from p2pmoe.text.tool_calls.forced import Controls, case_rules, mark, quoted
from p2pmoe.text.tool_calls.parameters import KnownTool, declared_types

__all__ = ["glm_call", "minimax_call", "qwen_coder_call"]

_TEXT = "TEXT: /[^<]{1,4000}/\n"

Around = Callable[[str], tuple[list[str], list[str]]]  # a key's marks


def glm_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of GLM-4.5."""

    def around(key: str) -> tuple[list[str], list[str]]:
        before = [mark("<arg_key>", controls), quoted(key)]
        before += [mark("</arg_key>", controls), quoted("\n")]
        before.append(mark("<arg_value>", controls))
        return before, [mark("</arg_value>", controls), quoted("\n")]

    return _grammar(
        tools,
        lambda name: [mark("<tool_call>", controls), quoted(f"{name}\n")],
        [mark("</tool_call>", controls)],
        around,
    )


def qwen_coder_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of Qwen3-Coder."""
    return _grammar(
        tools,
        lambda name: [
            mark("<tool_call>", controls),
            quoted(f"\n<function={name}>\n"),
        ],
        [quoted("</function>\n"), mark("</tool_call>", controls)],
        lambda key: ([quoted(f"<parameter={key}>\n")], [quoted("\n</parameter>\n")]),
    )


def minimax_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of MiniMax-M2."""
    return _grammar(
        tools,
        lambda name: [
            mark("<minimax:tool_call>", controls),
            quoted(f'\n<invoke name="{name}">\n'),
        ],
        [quoted("</invoke>\n"), mark("</minimax:tool_call>", controls)],
        lambda key: ([quoted(f'<parameter name="{key}">')], [quoted("</parameter>\n")]),
    )


def _grammar(
    tools: Sequence[KnownTool],
    opening: Callable[[str], list[str]],
    closing: list[str],
    around: Around,
) -> str:
    rules = ""
    cases = []
    for number, tool in enumerate(tools):
        schema = json.loads(tool.schema)
        required = schema.get("required")
        needed = set(required) if isinstance(required, list) else set()
        parts = []
        for place, (key, own) in enumerate(_properties(schema).items()):
            name = f"value_{number}_{place}"
            before, after = around(key)
            rules += f"{name}: {' '.join([*before, _value(own, schema), *after])}\n"
            parts.append(name if key in needed else f"{name}?")
        cases.append([*opening(tool.name), *parts, *closing])
    return case_rules(cases) + rules + _TEXT


def _properties(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def _value(own: object, schema: Mapping[str, Any]) -> str:
    """Return what stands for one argument's value.

    The reader knows the declared types alone: it takes for JSON what can be no text.
    """
    types = declared_types(own)
    if isinstance(own, dict) and types and "string" not in types:
        shared = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        options = {key: schema[key] for key in schema if key.startswith("x-")}
        return f"%json {json.dumps({**options, **own, **shared}, ensure_ascii=False)}"
    values = own.get("enum") if isinstance(own, dict) else None
    texts = [each for each in values or [] if isinstance(each, str) and each]
    return f"({' | '.join(map(quoted, texts))})" if texts else "TEXT"
