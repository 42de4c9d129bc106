"""The seam between a lane and whoever drafts for it: values and two protocols.

A round of a lane drafts tokens for sequences that decode, runs them in one pass behind
each sequence's next token (verification), and keeps those that are exactly what would
have been drawn anyway. So a drafter can only cost time, never change a token: it may be
wrong, run dry or fail, and the round then goes on without its drafts (faults B17).

Drafting goes token by token (`Drafting.advance`), so that a lane can do it while it
waits for workers. Positions behind the committed ones are anybody's: a drafter that
runs the model writes them through `KvCache.view`, verification writes over them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from p2pmoe.model.kv_cache import KvCache
from p2pmoe.model.sampler import SamplingSettings

__all__ = ["Draft", "DraftSource", "DraftWish", "Drafter", "Drafting"]


class DraftSource(StrEnum):
    """Who drafts; the value is what metrics and `--explain` say."""

    NGRAM = "ngram"  # what followed the same tokens earlier in the sequence
    SELF = "self"  # the model itself, routed among the experts at hand
    MODEL = "model"  # a small model of the same vocabulary
    MTP = "mtp"  # next-token heads of the model


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DraftWish:
    """A sequence to draft for.

    `tokens` are all its tokens, prompt and drawn, the last of which has not been run;
    `cache` holds the others. `number` names the sequence as long as it lives. At most
    `n` >= 1 tokens are wanted, and there is room for as many positions in the cache.
    `tokens` may end in drafts: what is told of a sequence later may end otherwise. The
    draft ends before the token at which the product of its chances falls below `floor`.
    """

    number: int
    tokens: Sequence[int]
    cache: KvCache
    sampling: SamplingSettings
    n: int
    floor: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Draft:
    """Tokens that may follow a sequence's; none if the drafter has no idea.

    `chances` has for each token the drafter's own estimate, 0 to 1, that it is accepted
    if all before it are. `foreseen` names by layer the experts that verification will
    likely need and that are not at hand, the likeliest first.
    """

    source: DraftSource
    tokens: tuple[int, ...] = ()
    chances: tuple[float, ...] = ()
    foreseen: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class Drafting(Protocol):
    """Drafting under way for the sequences of one round."""

    def advance(self) -> bool:
        """Draft one more token of each sequence that wants one; False if none does."""
        ...

    def drafts(self) -> list[Draft]:
        """Return the drafts so far, one for each wish in order."""
        ...


class Drafter(Protocol):
    """One way to draft; for one lane's thread at a time."""

    @property
    def source(self) -> DraftSource:
        """Which way it is."""
        ...

    def begin(self, wishes: Sequence[DraftWish]) -> Drafting:
        """Begin to draft; nothing expensive is done before `Drafting.advance`."""
        ...

    def forget(self, number: int) -> None:
        """Drop what is kept of a sequence; it is over."""
        ...
