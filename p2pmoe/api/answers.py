"""What the choices of a request gave: pieces as they come, and the whole at the end.

Values and sums, no JSON; `bodies` writes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from p2pmoe.api.logprobs import ScoredToken
from p2pmoe.backbone.generation import (
    FinishReason,
    GenerationEnd,
    StepFigures,
    TierCalls,
    Timings,
    TracedHash,
    Usage,
)
from p2pmoe.passes.values import PassTrace
from p2pmoe.text.tool_calls.calls import CalledTool

__all__ = ["Answer", "ChoiceEnd", "Piece", "joined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """What one step gave one choice; the last of several may be empty."""

    text: str = ""
    thoughts: str = ""
    calls: tuple[CalledTool, ...] = ()
    scored: tuple[ScoredToken, ...] = ()
    steps: tuple[StepFigures, ...] = ()
    hashes: tuple[TracedHash, ...] = ()
    passes: tuple[PassTrace, ...] = ()


def joined(pieces: Sequence[Piece]) -> Piece:
    """Return all pieces of a choice as one."""
    return Piece(
        text="".join(piece.text for piece in pieces),
        thoughts="".join(piece.thoughts for piece in pieces),
        calls=tuple(call for piece in pieces for call in piece.calls),
        scored=tuple(token for piece in pieces for token in piece.scored),
        steps=tuple(step for piece in pieces for step in piece.steps),
        hashes=tuple(hash_ for piece in pieces for hash_ in piece.hashes),
        passes=tuple(told for piece in pieces for told in piece.passes),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceEnd:
    """How a choice ended; `tokens` are those that count, a stop token included."""

    index: int
    prompt: int
    finish: FinishReason
    tokens: Sequence[int]
    end: GenerationEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """All choices of a request, in order; `n_prompt` counts each prompt once."""

    choices: Sequence[ChoiceEnd]
    n_prompt: int

    @property
    def n_tokens(self) -> int:
        """Tokens delivered, of all choices."""
        return sum(len(choice.tokens) for choice in self.choices)

    @property
    def n_cached(self) -> int:
        """Tokens of the prompts that no choice had to compute."""
        least: dict[int, int] = {}
        for choice in self.choices:
            cached = choice.end.usage.cached_tokens
            least[choice.prompt] = min(cached, least.get(choice.prompt, cached))
        return sum(least.values())

    @property
    def usage(self) -> Usage:
        """The engine's counts of all choices."""
        total: Usage = _summed([choice.end.usage for choice in self.choices])
        return total

    @property
    def timings(self) -> Timings:
        """The engine's figures of all choices."""
        total: Timings = _summed([choice.end.timings for choice in self.choices])
        return total


def _summed(items: Sequence[Any]) -> Any:  # noqa: ANN401 - one of three dataclasses
    values: dict[str, object] = {}
    for each in fields(items[0]):
        parts = [getattr(item, each.name) for item in items]
        tiers = isinstance(parts[0], TierCalls)
        values[each.name] = _summed(parts) if tiers else sum(parts)
    return type(items[0])(**values)
