"""Answers by a grammar parse, whatever the model; hostile schemas end soon."""

import contextlib
import json
import time
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from p2pmoe.grammar.errors import GrammarRefused
from p2pmoe.grammar.grammars import Grammar, Grammars, bounded_schema
from tests.support.api import small_tokenizer

TOKENIZER = small_tokenizer()
GRAMMARS = Grammars(TOKENIZER)
STOPS = TOKENIZER.vocabulary.stop_ids
STRING = {"type": "string"}


def spoken(grammar: Grammar, seed: int, most: int = 400) -> tuple[str, bool]:
    """What a model with no mind writes, and whether it came to an end."""
    random = np.random.default_rng(seed)
    constraint = grammar.start()
    tokens: list[int] = []
    for _ in range(most):
        allowed = np.flatnonzero(constraint.allowed())
        token = int(random.choice(allowed))
        constraint.accept(token)
        if token in STOPS:
            return TOKENIZER.decode(tokens).decode(), True
        tokens.append(token)
    return TOKENIZER.decode(tokens).decode(errors="ignore"), False


def of(schema: dict[str, Any]) -> Grammar:
    return GRAMMARS.json(json.dumps(schema))


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "kind": {"enum": ["a", "b"]},
    },
    "required": ["name", "age", "kind"],
    "additionalProperties": False,
}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 32))
def test_an_answer_that_ends_is_json_of_its_schema(seed: int) -> None:
    text, ended = spoken(of(PERSON), seed)
    if ended:
        value = json.loads(text)
        assert list(value) == ["name", "age", "kind"]
        assert 0 <= value["age"] <= 99
        assert value["kind"] in {"a", "b"}


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 1 << 32))
def test_any_object_is_an_object(seed: int) -> None:
    text, ended = spoken(of({"type": "object"}), seed)
    assert text.startswith("{")
    if ended:
        assert isinstance(json.loads(text), dict)


def test_answers_start_afresh() -> None:
    grammar = of({"enum": ["yes"]})
    assert [spoken(grammar, seed) for seed in (1, 2)] == [('"yes"', True)] * 2


def test_whitespace_is_bounded() -> None:
    constraint = of({"type": "array", "minItems": 1}).start()
    (space,) = TOKENIZER.encode("\n", bos=False)
    constraint.accept(TOKENIZER.encode("[", bos=False)[0])
    taken = 0
    while constraint.allowed()[space]:
        constraint.accept(space)
        taken += 1
    assert taken == 40


def test_no_control_token_is_text() -> None:
    grammar = of(STRING)
    constraint = grammar.start()
    allowed = constraint.allowed()
    assert not any(allowed[token] for token in range(3))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "nothing"},
        {"not": {}},
        {"anyOf": []},
        {"$ref": "http://127.0.0.1/x"},
        {"$ref": "file:///etc/passwd"},
        {"type": "string", "pattern": "^(?=a)b"},
        {"type": "array", "uniqueItems": True},
        {"allOf": [STRING, {"type": "integer"}]},
        {"x-guidance": {"lenient": True}, "uniqueItems": True},
        {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"type": "object", "properties": {f"p{n}": STRING for n in range(1500)}},
    ],
)
def test_what_cannot_be_followed_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(GrammarRefused) as caught:
        of(schema)
    assert len(str(caught.value)) <= 300
    assert "\n" not in str(caught.value)


def test_half_a_pair_of_surrogates_is_refused() -> None:
    with pytest.raises(GrammarRefused, match="no Unicode"):
        GRAMMARS.json('{"const": "\ud800"}')
    with pytest.raises(GrammarRefused, match="no Unicode"):
        GRAMMARS.lark('start: %json {"const": "\ud800"}')


def crossing(n: int) -> dict[str, Any]:
    """A schema whose cases multiply with each level."""
    defs: dict[str, Any] = {"d0": STRING}
    for level in range(1, n):
        cases = [{"type": "object", "properties": {f"{c}{level}": {}}} for c in "bc"]
        below = {"$ref": f"#/$defs/d{level - 1}"}
        defs[f"d{level}"] = {"allOf": [{"anyOf": cases}, below]}
    return {"$defs": defs, "$ref": f"#/$defs/d{n - 1}"}


HOSTILE = [
    crossing(14),
    {"type": "string", "pattern": "((a{0,100}){0,100}){0,100}"},
    {"type": "string", "pattern": "(x+x+)+y"},
    {"type": "string", "pattern": "[^a]*a.{200}"},
    {"type": "array", "minItems": 10**9},
    {"enum": [f"v{n}" for n in range(3000)]},
]


@pytest.mark.parametrize("schema", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_schema_ends_soon(schema: dict[str, Any]) -> None:
    began = time.process_time()
    with contextlib.suppress(GrammarRefused):
        spoken(of(schema), 1, most=40)
    assert time.process_time() - began < 5.0  # tens of ms; seconds on a busy machine


def test_a_grammar_in_larks_notation_holds_json() -> None:
    grammar = GRAMMARS.lark(f'start: "<a>" %json {bounded_schema("{}")} "</a>"')
    text, ended = spoken(grammar, 3)
    assert text.startswith("<a>")
    assert not ended or text.endswith("</a>")
    with pytest.raises(GrammarRefused):
        GRAMMARS.lark("start: nothing_here")
