"""A forced call is a call of a tool, with arguments of its schema."""

import dataclasses
import json

import numpy as np
import pytest

from p2pmoe.grammar.grammars import Grammars
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.text.tool_calls.calls import CalledTool, Said
from p2pmoe.text.tool_calls.families import FAMILIES, ToolFamily
from p2pmoe.text.tool_calls.parameters import known_tool
from p2pmoe.text.vocabulary import TokenKind, Vocabulary
from tests.support.vocabularies import BYTE_LEVEL

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {"city": {"enum": ["Bern", "Oslo"]}},
        "required": ["city"],
        "additionalProperties": False,
    }
)
TOOLS = [known_tool("weather", SCHEMA), known_tool("time", '{"enum": [{}]}')]


def with_controls(marks: tuple[str, ...], kind: TokenKind) -> Vocabulary:
    n = len(marks)
    return dataclasses.replace(
        BYTE_LEVEL,
        texts=(*BYTE_LEVEL.texts, *marks),
        kinds=(*BYTE_LEVEL.kinds, *[kind] * n),
    )


def spoken(family: ToolFamily, kind: TokenKind, rules: str, seed: int) -> str:
    """What a model with no mind writes, as its reader sees it."""
    tokenizer = Tokenizer(with_controls(family.controls, kind))
    constraint = Grammars(tokenizer).lark(rules).start()
    random = np.random.default_rng(seed)
    stops = tokenizer.vocabulary.stop_ids
    first = tokenizer.n_vocab - len(family.controls)
    pieces = []
    for _ in range(1000):
        token = int(random.choice(np.flatnonzero(constraint.allowed())))
        constraint.accept(token)
        if token in stops:
            return b"".join(pieces).decode()
        mark = family.controls[token - first] if token >= first else ""
        pieces.append(mark.encode() or tokenizer.token_bytes(token))
    return ""


def controls(family: ToolFamily, kind: TokenKind) -> dict[str, int]:
    vocabulary = with_controls(family.controls, kind)
    if kind is not TokenKind.CONTROL:
        return {}
    return {text: vocabulary.texts.index(text) for text in family.controls}


@pytest.mark.parametrize("kind", [TokenKind.CONTROL, TokenKind.USER_DEFINED])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_a_forced_call_is_read_as_a_call(family: ToolFamily, kind: TokenKind) -> None:
    rules = family.forced(TOOLS, controls(family, kind))
    if kind is TokenKind.USER_DEFINED and family.answer is not None:
        return  # its marks are control tokens, always
    for seed in range(6):
        text = spoken(family, kind, rules, seed)
        if not text:  # thought for too long
            continue
        reader = family.new_reader(TOOLS)
        items = [*reader.push(text), *reader.finish()]
        (call,) = [item for item in items if isinstance(item, CalledTool)]
        assert call.name in {"weather", "time"}
        if call.name == "weather":
            assert json.loads(call.arguments)["city"] in {"Bern", "Oslo"}


def test_an_answer_of_gpt_oss_by_a_schema_is_final() -> None:
    (family,) = [family for family in FAMILIES if family.answer is not None]
    assert family.answer is not None
    rules = family.answer(SCHEMA, controls(family, TokenKind.CONTROL))
    answers = 0
    for seed in range(12):
        text = spoken(family, TokenKind.CONTROL, rules, seed)
        if text:
            reader = family.new_reader([])
            items = [*reader.push(text), *reader.finish()]
            said = "".join(item.text for item in items if isinstance(item, Said))
            assert json.loads(said)["city"] in {"Bern", "Oslo"}
            answers += 1
    assert answers
