"""Grammars of one model's answers, compiled within limits.

A schema comes from anyone: its text is bounded before it gets here, the library's own
limits bound what is made of it and what each step may take, and whatever it cannot
follow exactly is refused, nothing is ignored. The first tokens are tried out before a
grammar counts as good, so that most of what is too complex is refused at once.

Whitespace between JSON's marks is bounded: a model that would write nothing else is
led on.

Source: llguidance, its documentation of JSON schemas and of Lark grammars.
"""

import json
import threading
from typing import TYPE_CHECKING

import numpy as np

from p2pmoe.grammar.constraint import MatcherConstraint
from p2pmoe.grammar.divisors import refuse_large_divisors
from p2pmoe.grammar.errors import ConstraintFailed, GrammarRefused
from p2pmoe.grammar.token_tree import build_token_tree
from p2pmoe.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

__all__ = ["Grammar", "Grammars", "bounded_schema"]

_TRIED_TOKENS = 4
_MAX_REASON = 200
_OPTIONS = "x-guidance"  # where the library looks for options
_WHITESPACE = r"[\x20\x0A\x0D\x09]{1,40}"


class Grammar:
    """A compiled grammar, from which each answer starts afresh."""

    def __init__(self, matcher: "LLMatcher", tokenizer: Tokenizer) -> None:
        """Keep the matcher at its start."""
        self._matcher = matcher
        self._tokenizer = tokenizer

    def start(self) -> MatcherConstraint:
        """Return the rule of one answer."""
        return MatcherConstraint(
            self._matcher.deep_copy(),
            self._tokenizer.n_vocab,
            self._tokenizer.vocabulary.stop_ids,
        )


class Grammars:
    """Compiles grammars over one tokenizer; may be shared between threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        """Build nothing yet."""
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._tree: LLTokenizer | None = None

    def json(self, schema: str) -> Grammar:
        """Return the grammar of JSON that satisfies a schema, itself JSON text.

        Pure computation, some ms: call it from a worker thread.

        Raises:
            GrammarRefused: The schema is wrong, not supported, or too complex.
        """
        tree = self._the_tree()
        from llguidance import LLMatcher  # noqa: PLC0415 - not needed by most

        try:
            text = LLMatcher.grammar_from_json_schema(bounded_schema(schema))
        except ValueError as exc:
            raise GrammarRefused(_line(str(exc))) from exc
        return self._compiled(tree, text)

    def lark(self, text: str) -> Grammar:
        """Return a grammar in Lark's notation; raises as `json`.

        In it `%json` and a schema stand for JSON; `bounded_schema` makes such schemas.
        """
        tree = self._the_tree()
        from llguidance import LLMatcher  # noqa: PLC0415 - not needed by most

        try:
            return self._compiled(tree, LLMatcher.grammar_from_lark(text))
        except UnicodeEncodeError as exc:
            raise GrammarRefused("a schema is no Unicode") from exc

    def _compiled(self, tree: "LLTokenizer", text: str) -> Grammar:
        from llguidance import LLMatcher, LLParserLimits  # noqa: PLC0415 - as above

        limits = LLParserLimits(
            initial_lexer_fuel=300_000,  # up to 0.2 s and 130 MB
            step_lexer_fuel=200_000,
            max_lexer_states=50_000,
            max_grammar_size=100_000,
            verbose_errors=False,
        )
        matcher = LLMatcher(tree, text, log_level=0, limits=limits)
        if matcher.is_error():
            raise GrammarRefused(_line(matcher.get_error()))
        grammar = Grammar(matcher, self._tokenizer)
        _try_out(grammar, self._tokenizer.vocabulary.stop_ids)
        return grammar

    def _the_tree(self) -> "LLTokenizer":
        with self._lock:
            if self._tree is None:
                self._tree = build_token_tree(self._tokenizer)
            return self._tree


def bounded_schema(schema: str) -> str:
    """Return a schema with bounded whitespace between the marks of its JSON.

    Raises:
        GrammarRefused: It says itself how it is to be read, is no Unicode, or has
            divisors that would take too long.
    """
    if any("\ud800" <= char <= "\udfff" for char in schema):
        raise GrammarRefused("the schema is no Unicode")
    if f'"{_OPTIONS}"' in schema:
        raise GrammarRefused(f"the key {_OPTIONS} is not supported")
    refuse_large_divisors(schema)
    options = json.dumps({_OPTIONS: {"whitespace_pattern": _WHITESPACE}})[:-1]
    rest = schema.strip().removeprefix("{")
    return options + ("" if rest.lstrip().startswith("}") else ", ") + rest


def _try_out(grammar: Grammar, stop_ids: frozenset[int]) -> None:
    constraint = grammar.start()
    try:
        for _ in range(_TRIED_TOKENS):
            token = int(np.argmax(constraint.allowed()))
            if token in stop_ids:
                return
            constraint.accept(token)
        constraint.allowed()
    except ConstraintFailed as exc:
        raise GrammarRefused(str(exc)) from exc


def _line(text: str) -> str:
    return " ".join(text.replace("<non-verbose/>", "").split())[:_MAX_REASON]
