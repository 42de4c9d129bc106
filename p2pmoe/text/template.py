"""The chat template of a model file: messages to one prompt, safely.

Rules:
- The template runs in `sandbox.Sandbox` under a limit of time, steps and text.
- Text of messages never becomes a control token (fault B08). A control token in the
  template's own text does: the prompt is tokenized with control tokens on, and before
  rendering, a guard character is put into each control token that stands in a message
  and at the ends of a message that could complete one with its neighbours. The guard
  is a Unicode noncharacter that occurs nowhere else; the tokenizer removes it.
- A template sees what it sees elsewhere: `messages` with `role` and `content`,
  `add_generation_prompt`, `bos_token`, `eos_token` and `unk_token`, `tools` (none if
  there are none), `documents` as none, `strftime_now` (UTC). `enable_thinking`,
  `date_string` and the like are not defined, so that its own defaults hold, nor is
  `reasoning_effort` unless it is given.
- The template's own refusal (`raise_exception`) is the messages' fault; any other
  failure is the template's.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from typing import Any

import jinja2

from p2pmoe.text.chat_message import (
    ChatMessage,
    PastCall,
    mapped,
    texts_in,
)
from p2pmoe.text.errors import TemplateError
from p2pmoe.text.sandbox import Budget, MessagesRefused, Sandbox, spending
from p2pmoe.text.template_tools import NO_TOOLS, TemplateTools, find_tools
from p2pmoe.text.token_finder import TokenFinder
from p2pmoe.text.tokenizer import Tokenizer
from p2pmoe.text.tokenizer_config import folder_template
from p2pmoe.weights.model_header import ModelHeader

__all__ = [
    "BrokenTemplate",
    "ChatMessage",
    "ChatTemplate",
    "PastCall",
    "TemplateLimits",
    "check_template",
    "guard_text",
    "load_template",
    "template_source",
]

_GUARDS = "".join(map(chr, range(0xFDD0, 0xFDF0)))
_MAX_TEMPLATE_CHARACTERS = 1 << 18
_MAX_DATE_CHARACTERS = 100
_SURROGATE = re.compile("[\ud800-\udfff]")
_DATE = re.compile(r"(?:[^%]|%-?[A-Za-z]|%%)*")  # no widths, which could be huge
_FAILURES = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RuntimeError,  # RecursionError among them
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateLimits:
    """How much text a prompt may have, and how long rendering may take."""

    max_characters: int
    max_seconds: float = 1.0


class ChatTemplate:
    """A compiled template with the tokenizer whose control tokens it may emit."""

    def __init__(
        self,
        source: str,
        tokenizer: Tokenizer,
        limits: TemplateLimits,
        *,
        monotonic: Callable[[], float],
        wall_us: Callable[[], int] = lambda: 0,
    ) -> None:
        """Compile `source`; `monotonic` is the clock of the time limit, in seconds.

        `wall_us`, microseconds since 1970, is what the template's date comes from.

        Raises:
            TemplateError: A syntax error, or something that is not allowed.
        """
        self.source = source
        self._tokenizer = tokenizer
        self._limits = limits
        self._monotonic = monotonic
        self._wall_us = wall_us
        self._controls = TokenFinder(tokenizer.control_texts)
        self._template = _compiled(source, self._budget())

    @cached_property
    def tools(self) -> TemplateTools:
        """What the template can do with tools; some renderings, for the first time."""
        return find_tools(self._render)

    def encode(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[dict[str, Any]] = (),
        effort: str | None = None,
    ) -> list[int]:
        """Return the prompt's token ids, ready for the model's answer.

        `tools` are in OpenAI's form, `effort` is how long to think, by a word. Pure
        computation of up to `max_seconds`, more when tools come first: call it from a
        worker thread.

        Raises:
            TemplateError: Rendering failed; `by_messages` says whose fault it is.
            TextRefused: A message is no Unicode.
        """
        has_calls = any(message.calls or message.call_id for message in messages)
        known = self.tools if has_calls else NO_TOOLS
        given: list[Any] = [known.messages(messages), list(tools)]
        texts = list(texts_in(given))
        size = sum(map(len, texts))
        if size > self._limits.max_characters:
            reason = f"messages of {size} characters are too long"
            raise TemplateError(reason, by_messages=True)
        guard = self._free_guard(texts)
        guarded = mapped(given, lambda text: guard_text(text, self._controls, guard))
        bos = self._tokenizer.vocabulary.add_bos
        prompt = self._render(guarded[0], guarded[1], effort)
        if _SURROGATE.search(prompt) and not any(map(_SURROGATE.search, texts)):
            raise TemplateError("chat template makes half a surrogate pair, no Unicode")
        return self._tokenizer.encode(prompt, bos=bos, special=True, guard=guard)

    def _render(
        self,
        messages: list[dict[str, Any]],
        tools: Sequence[dict[str, Any]] = (),
        effort: str | None = None,
    ) -> str:
        vocabulary = self._tokenizer.vocabulary
        variables: dict[str, Any] = {
            "messages": messages,
            "add_generation_prompt": True,
            "bos_token": _text_of(vocabulary.texts, vocabulary.bos_id),
            "eos_token": _text_of(vocabulary.texts, vocabulary.eos_id),
            "unk_token": _text_of(vocabulary.texts, vocabulary.unknown_id),
            "tools": list(tools) or None,
            "documents": None,
            "strftime_now": self._strftime_now,
        }
        if effort is not None:
            variables["reasoning_effort"] = effort
        try:
            with spending(self._budget()):
                return self._template.render(variables)
        except MessagesRefused as exc:
            raise TemplateError(_line(exc), by_messages=True) from exc
        except _FAILURES as exc:
            raise TemplateError(f"chat template failed: {_line(exc)}") from exc

    def _strftime_now(self, form: str) -> str:
        if len(form) > _MAX_DATE_CHARACTERS or not _DATE.fullmatch(form):
            raise ValueError(f"strftime_now cannot write {form[:40]!r}")
        now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=self._wall_us())
        return now.strftime(form)

    def _budget(self) -> Budget:
        return Budget(
            max_characters=self._limits.max_characters,
            deadline=self._monotonic() + self._limits.max_seconds,
            monotonic=self._monotonic,
        )

    def _free_guard(self, texts: Iterable[str]) -> str:
        taken = set(self.source).union(*map(set, texts))
        for guard in _GUARDS:
            if guard not in taken:
                return guard
        reason = "messages hold every Unicode noncharacter"
        raise TemplateError(reason, by_messages=True)


def load_template(
    model: ModelHeader,
    tokenizer: Tokenizer,
    n_context: int,
    *,
    monotonic: Callable[[], float],
    wall_us: Callable[[], int] = lambda: 0,
) -> ChatTemplate | None:
    """Return the model's chat template for a context of `n_context` tokens, if any.

    The clocks are those of `ChatTemplate`.

    Raises:
        TemplateError: It does not compile, or asks for what is not allowed.
    """
    source = template_source(model)
    if not source:
        return None
    limits = TemplateLimits(max_characters=n_context * 16 + (1 << 16))
    return ChatTemplate(source, tokenizer, limits, monotonic=monotonic, wall_us=wall_us)


class BrokenTemplate:
    """Stands for a template that does not compile: refuses every chat (fault B07).

    So a model serves what needs no template.
    """

    def __init__(self, reason: TemplateError) -> None:
        """Refuse for the reason that compiling gave."""
        self.reason = str(reason)
        self.source = ""
        self.tools = NO_TOOLS

    def encode(
        self,
        messages: Sequence[ChatMessage],
        tools: Sequence[dict[str, Any]] = (),
        effort: str | None = None,
    ) -> list[int]:
        """Raise TemplateError, whatever the messages."""
        raise TemplateError(self.reason)


def check_template(source: str) -> None:
    """Refuse a template that does not compile, without a tokenizer or a clock.

    Raises:
        TemplateError: A syntax error, or something that is not allowed.
    """
    limits = TemplateLimits(max_characters=_MAX_TEMPLATE_CHARACTERS)
    _compiled(
        source,
        Budget(
            max_characters=limits.max_characters,
            deadline=limits.max_seconds,
            monotonic=lambda: 0.0,
        ),
    )


def _compiled(source: str, budget: Budget) -> jinja2.Template:
    if len(source) > _MAX_TEMPLATE_CHARACTERS:
        raise TemplateError(f"chat template has {len(source)} characters")
    try:
        with spending(budget):
            return Sandbox().compile_template(source)
    except _FAILURES as exc:
        raise TemplateError(f"chat template does not compile: {_line(exc)}") from exc


def template_source(model: ModelHeader) -> str:
    """Return the text of a model's chat template, empty if it has none.

    Raises:
        TemplateError: The folder's template cannot be read.
    """
    if model.folder is not None:
        return folder_template(model.folder)
    return model.metadata.text("tokenizer.chat_template", "")


def guard_text(text: str, controls: TokenFinder, guard: str) -> str:
    """Return `text` with `guard` wherever it could be part of a control token.

    Removing the guard gives the text back. Spaces at the ends stay at the ends, so
    that a template may trim them.
    """
    if not controls:
        return text
    places = [0, *(place + 1 for place in controls.starts(text)), len(text)]
    text = guard.join(text[a:b] for a, b in pairwise(places))
    core = text.strip()
    if not core:
        return text
    start = text.index(core)
    end = start + len(core)
    after = guard if controls.may_begin(core) else ""
    before = guard if controls.may_end(core) else ""
    if len(core) == 1:
        return text[:end] + (after or before) + text[end:]
    middle = core[0] + after + core[1:-1] + before + core[-1]
    return text[:start] + middle + text[end:]


def _text_of(texts: Sequence[str], token: int | None) -> str:
    return "" if token is None else texts[token]


def _line(exc: BaseException) -> str:
    return " ".join(f"{type(exc).__name__}: {exc}".split())[:200]
