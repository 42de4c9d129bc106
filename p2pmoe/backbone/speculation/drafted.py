"""One round: what is wanted, what was drafted, and how drafts are put together.

Pure; lane_drafts.py is who uses them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.speculation.drafts import Draft, DraftSource, DraftWish
from p2pmoe.backbone.speculation.in_flight import InFlight
from p2pmoe.backbone.speculation.rounds import RoundPlan
from p2pmoe.model.kv_cache import KvCache

__all__ = ["Ahead", "Guess", "Round", "cut", "joined", "wish_of"]


@dataclass(frozen=True, slots=True)
class Guess:
    """What followed a sequence's last `match` tokens earlier in it; 0: nothing did."""

    match: int = 0
    token: int | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class Round:
    """One round: its plan, how many tokens are wanted, and what was drafted."""

    plan: RoundPlan
    wanted: dict[SequenceState, int] = field(default_factory=dict)
    guesses: dict[SequenceState, Guess] = field(default_factory=dict)
    drafts: dict[SequenceState, Draft] = field(default_factory=dict)
    foreseen: list[Mapping[int, tuple[int, ...]]] = field(default_factory=list)
    draft_s: float = 0.0
    in_flight: InFlight | None = None

    def tokens(self, sequence: SequenceState) -> tuple[int, ...]:
        """Return what was drafted for a sequence."""
        draft = self.drafts.get(sequence)
        return () if draft is None else draft.tokens

    def chances(self, sequence: SequenceState) -> tuple[float, ...]:
        """Return what its drafter said of each of those tokens."""
        draft = self.drafts.get(sequence)
        return () if draft is None else draft.chances

    def give_up(self) -> None:
        """Go on without drafts."""
        self.drafts.clear()
        self.foreseen = []
        self.in_flight = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Ahead:
    """What was drafted in flight for a sequence of so many tokens, in its cache."""

    draft: Draft
    n_tokens: int
    cache: KvCache
    capacity: int  # growing copies committed positions alone

    def fits(self, sequence: SequenceState, source: DraftSource | None) -> bool:
        """Whether it goes on from what the sequence is now."""
        cache = sequence.cache
        return (
            self.draft.source is source
            and self.cache is cache
            and self.capacity == self.cache.capacity
            and self.n_tokens == len(sequence.tokens)
        )


def wish_of(
    sequence: SequenceState, drafted: Draft | None, n: int, floor: float = 0.0
) -> DraftWish | None:
    """Return the wish for drafts behind those there are, `n` in all; None for none.

    `floor` is that of a round's plan.
    """
    cache = sequence.cache
    if cache is None:
        return None
    known = () if drafted is None else drafted.tokens
    length = cache.length + len(known)
    more = min(n - len(known), cache.capacity - length)
    reached = 1.0 if drafted is None else math.prod(drafted.chances)
    if more <= 0 or reached < floor:
        return None
    return DraftWish(
        number=sequence.number,
        tokens=[*sequence.tokens, *known],
        cache=cache.view(length),
        sampling=sequence.request.sampling,
        n=more,
        floor=floor / reached if floor else 0.0,
    )


def joined(first: Draft | None, second: Draft | None) -> Draft | None:
    """Return two drafts of which the second goes on from the first as one."""
    if first is None or second is None:
        return second if first is None else first
    foreseen = dict(first.foreseen)
    for layer, experts in second.foreseen.items():
        foreseen[layer] = tuple(dict.fromkeys((*foreseen.get(layer, ()), *experts)))
    return Draft(
        source=first.source,
        tokens=first.tokens + second.tokens,
        chances=first.chances + second.chances,
        foreseen=foreseen,
    )


def cut(draft: Draft, sequence: SequenceState, floor: float) -> Draft:
    """Cut a draft where it is not worth its rows.

    That is before the token that is too unlikely to be reached and right, and behind a
    stop token: nothing behind it is ever drawn.
    """
    chance, n = 1.0, 0
    for token, own in zip(draft.tokens, draft.chances, strict=True):
        chance *= own
        if chance < floor:
            break
        n += 1
        if token in sequence.request.stop_ids:
            break
    return replace(draft, tokens=draft.tokens[:n], chances=draft.chances[:n])
