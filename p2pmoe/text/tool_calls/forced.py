"""Grammars that leave a model nothing but a call of one of its tools.

In Lark's notation as the grammar library takes it: a mark that is a control token is
named by its id, `%json` stands for JSON of a schema. The arguments so always satisfy
the tool's schema, unless the answer is cut by its limit.

Source: llguidance, its documentation of the notation.
"""

import json
from collections.abc import Mapping, Sequence

from p2pmoe.text.tool_calls.marks import DEEPSEEK, HARMONY, KIMI
from p2pmoe.text.tool_calls.parameters import KnownTool

__all__ = [
    "deepseek_call",
    "deepseek_fenced_call",
    "final_answer",
    "harmony_call",
    "hermes_call",
    "kimi_call",
    "mistral_call",
]

Controls = Mapping[str, int]  # marks that are control tokens, and their ids


def hermes_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of Hermes and Qwen."""
    opening, closing = _mark("<tool_call>", controls), _mark("</tool_call>", controls)
    return _one_of(
        [
            [
                *(opening, _quoted(f'\n{{"name": "{tool.name}", "arguments": ')),
                *(_json(tool), _quoted("}\n"), closing),
            ]
            for tool in tools
        ]
    )


def mistral_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of Mistral."""
    opening = _mark("[TOOL_CALLS]", controls)
    return _one_of(
        [
            [
                *(opening, _quoted(f'[{{"name": "{tool.name}", "arguments": ')),
                *(_json(tool), _quoted("}]")),
            ]
            for tool in tools
        ]
    )


def deepseek_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of DeepSeek-V3.1."""
    marks = {name: _mark(text, controls) for name, text in DEEPSEEK.items()}
    return _one_of(
        [
            [
                *(marks["section"], marks["call"], _quoted(tool.name)),
                *(marks["separator"], _json(tool)),
                *(marks["call_end"], marks["section_end"]),
            ]
            for tool in tools
        ]
    )


def deepseek_fenced_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of DeepSeek-V3 and R1."""
    marks = {name: _mark(text, controls) for name, text in DEEPSEEK.items()}
    return _one_of(
        [
            [
                *(marks["section"], marks["call"], _quoted("function")),
                *(marks["separator"], _quoted(f"{tool.name}\n```json\n"), _json(tool)),
                *(_quoted("\n```"), marks["call_end"], marks["section_end"]),
            ]
            for tool in tools
        ]
    )


def kimi_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of Kimi-K2."""
    marks = {name: _mark(text, controls) for name, text in KIMI.items()}
    return _one_of(
        [
            [
                *(marks["section"], marks["call"]),
                *(_quoted(f"functions.{tool.name}:0"), marks["separator"]),
                *(_json(tool), marks["call_end"], marks["section_end"]),
            ]
            for tool in tools
        ]
    )


def harmony_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of gpt-oss, thoughts before it allowed."""
    marks = {name: _mark(text, controls) for name, text in HARMONY.items()}
    calls = [
        [
            marks["channel"],
            _quoted(f"commentary to=functions.{tool.name} "),
            *(marks["constrain"], _quoted("json"), marks["message"], _json(tool)),
        ]
        for tool in tools
    ]
    return _one_of(calls, before="thoughts?") + _thoughts(marks)


def final_answer(schema: str, controls: Controls) -> str:
    """Return the grammar of gpt-oss's answer in JSON, thoughts before it allowed."""
    marks = {name: _mark(text, controls) for name, text in HARMONY.items()}
    answer = [
        *(marks["channel"], _quoted("final"), marks["message"]),
        f"%json {schema}",
    ]
    return _one_of([answer], before="thoughts?") + _thoughts(marks)


def _thoughts(marks: Mapping[str, str]) -> str:
    parts = [
        *(marks["channel"], _quoted("analysis"), marks["message"], "THOUGHT"),
        *(marks["end"], marks["start"], _quoted("assistant")),
    ]
    return f"thoughts: {' '.join(parts)}\nTHOUGHT: /(.|\\n){{1,20000}}/\n"


def _one_of(cases: Sequence[Sequence[str]], before: str = "") -> str:
    names = " | ".join(f"case_{number}" for number in range(len(cases)))
    rules = [f"start: {before} ({names})\n"]
    rules += [f"case_{number}: {' '.join(case)}\n" for number, case in enumerate(cases)]
    return "".join(rules)


def _mark(text: str, controls: Controls) -> str:
    return f"<[{controls[text]}]>" if text in controls else _quoted(text)


def _json(tool: KnownTool) -> str:
    return f"%json {tool.schema}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
