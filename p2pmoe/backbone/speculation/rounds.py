"""What a lane asks before a round and tells after it: the controller's seam.

`Chooser.choose` says who drafts and how many tokens, `observe` takes in what came of
it. Times are seconds; nothing here reads a clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from p2pmoe.backbone.speculation.drafts import DraftSource

__all__ = ["Chooser", "RoundOutcome", "RoundPlan", "RoundQuestion", "SequenceOutcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundQuestion:
    """What a round is about: the sequences that decode, and what there is to draft by.

    `most` is the largest number of tokens that may be drafted for each of them (room,
    max_tokens); `matches` the n-gram drafter's longest match of each, 0 for none.
    """

    n_sequences: int
    most: int
    sources: frozenset[DraftSource]
    matches: Sequence[int] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """Who drafts, how many tokens at most, and why, in words for `--explain`.

    Without a source the round decodes plainly. `prefetch`: the weights of foreseen
    experts are fetched before the pass.
    """

    source: DraftSource | None = None
    n_drafts: int = 0
    prefetch: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOutcome:
    """What became of one sequence's draft: `n_accepted` <= `n_drafted`."""

    source: DraftSource | None
    n_drafted: int
    n_accepted: int
    match: int = 0  # the n-gram's length


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """What a round cost and gave: each sequence commits its accepted drafts and one.

    `draft_s` is drafting that nothing hid, `pass_s` the whole of verification,
    `wait_s` how much of it the lane waited for the network, `n_trips` its waits.
    """

    plan: RoundPlan
    sequences: Sequence[SequenceOutcome]
    n_rows: int
    draft_s: float
    pass_s: float
    wait_s: float
    n_trips: int


class Chooser(Protocol):
    """Chooses rounds; one for each lane, on its thread."""

    def choose(self, question: RoundQuestion) -> RoundPlan:
        """Return how the next round is to draft."""
        ...

    def observe(self, outcome: RoundOutcome) -> None:
        """Take in what came of a round."""
        ...
