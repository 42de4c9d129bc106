"""Worlds in which a controller of speculation is tried: costs, texts, and a clock.

A text is a row of tokens, each with what copying and drafting would have made of it:
the length of the n-gram's match there, whether what followed the n-gram is right, and
whether each drafter is. A draft of k tokens at a place is accepted as far as it is
right without a break, as with a real one, so every way to draft meets the same text.
Time is what the world says a pass takes; the controller sees it with noise, and what is
compared is without.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

from p2pmoe.backbone.speculation.drafts import DraftSource
from p2pmoe.backbone.speculation.rounds import (
    Chooser,
    RoundOutcome,
    RoundPlan,
    RoundQuestion,
    SequenceOutcome,
)

__all__ = [
    "KINDS",
    "Kind",
    "Run",
    "Text",
    "World",
    "fixed_s",
    "plain_s",
    "run",
    "write",
]


@dataclass(frozen=True)
class World:
    """What things take: seconds, of a model with `n_layers` routed layers."""

    rtt_s: float = 0.02
    compute_s: float = 0.005  # of a pass of one row
    row: float = 0.5  # of it, for each further row
    n_layers: int = 7
    misses: float = 0.5  # of a layer by one row: each a trip
    self_step: float = 0.8  # of compute_s, for each drafted token
    model_step: float = 0.2
    hidden: float = 0.0  # share of drafting that waits hide
    fetch_s: float = 0.0  # of a prefetch, besides a trip
    can_prefetch: bool = False
    noise: float = 0.15
    stall: float = 0.0  # chance that a pass takes much longer
    sources: frozenset[DraftSource] = frozenset({DraftSource.NGRAM, DraftSource.SELF})

    def trips(self, rows: int) -> float:
        """Return the waits of a pass."""
        if self.rtt_s == 0.0:
            return 0.0
        return self.n_layers * (1.0 - (1.0 - self.misses) ** rows)

    def compute(self, rows: int) -> float:
        """Return the seconds that a pass computes."""
        return self.compute_s * (1.0 + self.row * (rows - 1))

    def wait(self, rows: int, prefetch_s: float = 0.0) -> float:
        """Return the seconds that a pass waits, `prefetch_s` at most for weights."""
        waits = self.trips(rows) * self.rtt_s
        fetching = self.rtt_s + self.fetch_s
        if prefetch_s > 0.0 and fetching <= prefetch_s:
            return fetching + 0.15 * waits
        return waits + prefetch_s

    def seconds(self, rows: int, prefetch_s: float = 0.0) -> float:
        """Return the seconds of a pass."""
        return self.compute(rows) + self.wait(rows, prefetch_s)

    def draft(self, source: DraftSource, n: int) -> float:
        """Return the seconds that drafting takes and nothing hides."""
        steps = {DraftSource.SELF: self.self_step, DraftSource.MODEL: self.model_step}
        return steps.get(source, 0.0) * self.compute_s * n * (1.0 - self.hidden)


@dataclass(frozen=True)
class Kind:
    """A kind of text: how likely copies and drafters are right.

    `copies`: by match length 2, 3, 4, 6, 8 and more; `starts` how often a match begins
    where there was none.
    """

    copies: tuple[float, float, float, float, float]
    starts: float
    selfs: float
    models: float


KINDS = {
    "copy": Kind((0.6, 0.8, 0.9, 0.96, 0.98), 0.5, 0.8, 0.6),
    "edit": Kind((0.5, 0.65, 0.8, 0.88, 0.92), 0.4, 0.75, 0.6),
    "code": Kind((0.35, 0.5, 0.6, 0.7, 0.8), 0.3, 0.72, 0.6),
    "prose": Kind((0.1, 0.15, 0.2, 0.3, 0.4), 0.15, 0.65, 0.45),
    "dialogue": Kind((0.15, 0.2, 0.3, 0.4, 0.5), 0.2, 0.6, 0.4),
    "noise": Kind((0.0, 0.0, 0.0, 0.0, 0.0), 0.3, 0.05, 0.02),
}


@dataclass
class Text:
    """Tokens by what drafters make of them."""

    matches: list[int] = field(default_factory=list)
    copied: list[bool] = field(default_factory=list)
    selfs: list[bool] = field(default_factory=list)
    models: list[bool] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.matches)

    def right(self, source: DraftSource) -> Sequence[bool]:
        """Return by token whether a source would have it right."""
        return {
            DraftSource.NGRAM: self.copied,
            DraftSource.SELF: self.selfs,
            DraftSource.MODEL: self.models,
        }[source]

    def accepted(self, source: DraftSource, at: int, n: int) -> tuple[int, int]:
        """Return how many are drafted at a place, and accepted."""
        n = min(n, len(self) - at - 1)
        if source is DraftSource.NGRAM and not self.matches[at]:
            return 0, 0
        right, accepted = self.right(source), 0
        while accepted < n and right[at + accepted]:
            accepted += 1
        return max(0, n), accepted


def write(pieces: Sequence[tuple[Kind, int]], seed: int) -> Text:
    """Return a text of pieces, each of a kind and so many tokens."""
    chance, text, match = random.Random(seed), Text(), 0
    for kind, n in pieces:
        for _ in range(n):
            if match == 0 and chance.random() < kind.starts:
                match = chance.choice((2, 2, 3))
            place = sum(match >= length for length in (3, 4, 6, 8))
            is_right = match > 0 and chance.random() < kind.copies[place]
            text.matches.append(match)
            text.copied.append(is_right)
            text.selfs.append(chance.random() < kind.selfs)
            text.models.append(chance.random() < kind.models)
            match = min(12, match + 1) if is_right else 0
    return text


@dataclass
class Run:
    """What came of a text."""

    seconds: float = 0.0
    n_rounds: int = 0
    n_plain: int = 0
    plans: list[RoundPlan] = field(default_factory=list)


def plain_s(world: World, text: Text) -> float:
    """Return the seconds without drafts."""
    return len(text) * world.seconds(1)


def fixed_s(
    world: World, text: Text, source: DraftSource, n: int, *, prefetch: bool = False
) -> float:
    """Return the seconds if each round drafts the same way."""
    at, seconds = 0, 0.0
    while at < len(text):
        drafted, accepted = text.accepted(source, at, n)
        seconds += world.draft(source, drafted)
        seconds += world.seconds(1 + drafted, inf if prefetch else 0.0)
        at += 1 + accepted
    return seconds


def run(world: World, text: Text, chooser: Chooser, *, seed: int, number: int) -> Run:
    """Decode a text by the rounds that are chosen, as sequence `number`."""
    chance, result, at = random.Random(seed), Run(), 0
    while at < len(text):
        question = RoundQuestion(
            n_sequences=1,
            most=min(64, len(text) - at - 1),
            sources=world.sources,
            matches=(text.matches[at],),
            numbers=(number,),
            can_prefetch=world.can_prefetch,
        )
        plan = chooser.choose(question)
        drafted = accepted = 0
        if plan.source is not None:
            assert plan.source in question.sources
            assert 1 <= plan.n_drafts <= question.most
            drafted, accepted = text.accepted(plan.source, at, plan.n_drafts)
        outcome = _outcome(world, text, plan, (at, drafted, accepted), chance)
        seconds = world.seconds(1 + drafted, plan.prefetch_s if plan.prefetch else 0.0)
        if plan.source is not None:
            seconds += world.draft(plan.source, drafted)
        result.seconds += seconds
        result.n_rounds += 1
        result.n_plain += plan.source is None
        result.plans.append(plan)
        chooser.observe(outcome)
        at += 1 + accepted
    return result


def _outcome(
    world: World,
    text: Text,
    plan: RoundPlan,
    round_: tuple[int, int, int],
    chance: random.Random,
) -> RoundOutcome:
    """Return what the controller sees of a round, with noise."""
    at, drafted, accepted = round_
    rows = 1 + drafted
    wait = world.wait(rows, plan.prefetch_s if plan.prefetch else 0.0)
    n_trips = round(world.trips(rows) + chance.uniform(-0.5, 0.5))
    if plan.prefetch:
        n_trips = 1 + round(0.15 * world.trips(rows))
    elif n_trips:
        wait *= n_trips / world.trips(rows)  # by the mean as often as `wait` says
    else:
        wait = 0.0
    wait *= chance.lognormvariate(0.0, world.noise)
    compute = world.compute(rows) * chance.lognormvariate(0.0, world.noise)
    if chance.random() < world.stall:
        compute += 20.0 * world.compute_s
    draft_s = 0.0
    if plan.source is not None:
        draft_s = world.draft(plan.source, drafted)
        draft_s *= chance.lognormvariate(0.0, world.noise)
    return RoundOutcome(
        plan=plan,
        sequences=[
            SequenceOutcome(
                source=plan.source,
                n_drafted=drafted,
                n_accepted=accepted,
                match=text.matches[at],
                was_guessed=text.copied[at] if text.matches[at] else None,
            )
        ],
        n_rows=rows,
        draft_s=draft_s,
        pass_s=wait + compute,
        wait_s=wait,
        n_trips=n_trips,
        fetch_s=min(world.rtt_s + world.fetch_s, plan.prefetch_s)
        if plan.prefetch
        else 0.0,
    )
