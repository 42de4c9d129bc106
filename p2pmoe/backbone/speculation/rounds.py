"""What a lane asks before a round and tells after it: the controller's seam.

`Chooser.choose` says who drafts and how many tokens, `observe` takes in what came of
it. Times are seconds; nothing here reads a clock.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Protocol

from p2pmoe.backbone.speculation.drafts import DraftSource

__all__ = ["Chooser", "RoundOutcome", "RoundPlan", "RoundQuestion", "SequenceOutcome"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundQuestion:
    """What a round is about: the sequences that decode, and what there is to draft by.

    `most` is the largest number of tokens that may be drafted for each of them (room,
    max_tokens); `matches` the n-gram drafter's longest match of each, 0 for none.
    `numbers` names the sequences (`DraftWish.number`); `n_other_rows` are a prompt's
    that share the pass. `can_prefetch`: weights can be fetched from somewhere.
    """

    n_sequences: int
    most: int
    sources: frozenset[DraftSource]
    matches: Sequence[int] = ()
    numbers: Sequence[int] = ()
    n_other_rows: int = 0
    can_prefetch: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundPlan:
    """Who drafts, how many tokens at most, and why, in words for `--explain`.

    Without a source the round decodes plainly. A sequence's draft ends before the token
    at which the product of its `Draft.chances` falls below `floor`: such a token is not
    worth its row. `prefetch`: the weights of foreseen experts are fetched before the
    pass, waiting no longer than `prefetch_s`.
    """

    source: DraftSource | None = None
    n_drafts: int = 0
    floor: float = 0.0
    prefetch: bool = False
    prefetch_s: float = inf
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOutcome:
    """What became of one sequence's draft: `n_accepted` <= `n_drafted`.

    `n_drafted` counts the tokens that were verified. `was_guessed`: whether the token
    that was drawn first is the one that followed the n-gram, drafted or not; None if
    there was no match, or nobody looked. So the controller learns what copying would
    be worth in rounds that do not copy, too.
    """

    source: DraftSource | None
    n_drafted: int
    n_accepted: int
    chances: Sequence[float] = ()  # what their drafter said of those drafted
    match: int = 0  # the n-gram's length
    was_guessed: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundOutcome:
    """What a round cost and gave: each sequence commits its accepted drafts and one.

    `draft_s` is drafting that nothing hid, `pass_s` the whole of verification (with a
    prefetch before it), `wait_s` how much of it the lane waited for the network,
    `n_trips` its waits; `fetch_s` of it went by for weights, 0 if none were worth it.
    `n_rows` are all rows of the pass, a prompt's with them.
    """

    plan: RoundPlan
    sequences: Sequence[SequenceOutcome]
    n_rows: int
    draft_s: float
    pass_s: float
    wait_s: float
    n_trips: int
    fetch_s: float = 0.0


class Chooser(Protocol):
    """Chooses rounds; one for each lane, on its thread."""

    def choose(self, question: RoundQuestion) -> RoundPlan:
        """Return how the next round is to draft."""
        ...

    def observe(self, outcome: RoundOutcome) -> None:
        """Take in what came of a round."""
        ...
