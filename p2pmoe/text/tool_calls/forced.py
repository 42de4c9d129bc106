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
    "Controls",
    "case_rules",
    "deepseek_call",
    "deepseek_fenced_call",
    "final_answer",
    "harmony_call",
    "hermes_call",
    "kimi_call",
    "mark",
    "mistral_call",
    "quoted",
]

Controls = Mapping[str, int]  # marks that are control tokens, and their ids


def hermes_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of Hermes and Qwen."""
    opening, closing = mark("<tool_call>", controls), mark("</tool_call>", controls)
    return case_rules(
        [
            [
                *(opening, quoted(f'\n{{"name": "{tool.name}", "arguments": ')),
                *(_json(tool), quoted("}\n"), closing),
            ]
            for tool in tools
        ]
    )


def mistral_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of Mistral."""
    opening = mark("[TOOL_CALLS]", controls)
    return case_rules(
        [
            [
                *(opening, quoted(f'[{{"name": "{tool.name}", "arguments": ')),
                *(_json(tool), quoted("}]")),
            ]
            for tool in tools
        ]
    )


def deepseek_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of DeepSeek-V3.1."""
    marks = {name: mark(text, controls) for name, text in DEEPSEEK.items()}
    return case_rules(
        [
            [
                *(marks["section"], marks["call"], quoted(tool.name)),
                *(marks["separator"], _json(tool)),
                *(marks["call_end"], marks["section_end"]),
            ]
            for tool in tools
        ]
    )


def deepseek_fenced_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of DeepSeek-V3 and R1."""
    marks = {name: mark(text, controls) for name, text in DEEPSEEK.items()}
    return case_rules(
        [
            [
                *(marks["section"], marks["call"], quoted("function")),
                *(marks["separator"], quoted(f"{tool.name}\n```json\n"), _json(tool)),
                *(quoted("\n```"), marks["call_end"], marks["section_end"]),
            ]
            for tool in tools
        ]
    )


def kimi_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of Kimi-K2."""
    marks = {name: mark(text, controls) for name, text in KIMI.items()}
    return case_rules(
        [
            [
                *(marks["section"], marks["call"]),
                *(quoted(f"functions.{tool.name}:0"), marks["separator"]),
                *(_json(tool), marks["call_end"], marks["section_end"]),
            ]
            for tool in tools
        ]
    )


def harmony_call(tools: Sequence[KnownTool], controls: Controls) -> str:
    """Return the grammar of one call of gpt-oss, thoughts before it allowed."""
    marks = {name: mark(text, controls) for name, text in HARMONY.items()}
    calls = [
        [
            marks["channel"],
            quoted(f"commentary to=functions.{tool.name} "),
            *(marks["constrain"], quoted("json"), marks["message"], _json(tool)),
        ]
        for tool in tools
    ]
    return case_rules(calls, before="thoughts?") + _thoughts(marks)


def final_answer(schema: str, controls: Controls) -> str:
    """Return the grammar of gpt-oss's answer in JSON, thoughts before it allowed."""
    marks = {name: mark(text, controls) for name, text in HARMONY.items()}
    answer = [
        *(marks["channel"], quoted("final"), marks["message"]),
        f"%json {schema}",
    ]
    return case_rules([answer], before="thoughts?") + _thoughts(marks)


def case_rules(cases: Sequence[Sequence[str]], before: str = "") -> str:
    """Return the rules of one of several cases, each a row of parts."""
    names = " | ".join(f"case_{number}" for number in range(len(cases)))
    rules = [f"start: {before} ({names})\n"]
    rules += [f"case_{number}: {' '.join(case)}\n" for number, case in enumerate(cases)]
    return "".join(rules)


def mark(text: str, controls: Controls) -> str:
    """Return what stands for a mark of a format."""
    return f"<[{controls[text]}]>" if text in controls else quoted(text)


def quoted(text: str) -> str:
    """Return what stands for a text as it is."""
    return json.dumps(text, ensure_ascii=False)


def _thoughts(marks: Mapping[str, str]) -> str:
    parts = [
        *(marks["channel"], quoted("analysis"), marks["message"], "THOUGHT"),
        *(marks["end"], marks["start"], quoted("assistant")),
    ]
    return f"thoughts: {' '.join(parts)}\nTHOUGHT: /(.|\\n){{1,20000}}/\n"


def _json(tool: KnownTool) -> str:
    return f"%json {tool.schema}"
