"""Drafters and choosers that do what a test says."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from p2pmoe.backbone.speculation.drafts import (
    Draft,
    Drafter,
    DraftSource,
    DraftWish,
)
from p2pmoe.backbone.speculation.rounds import (
    RoundOutcome,
    RoundPlan,
    RoundQuestion,
)
from p2pmoe.backbone.speculation.speculation import Speculation

__all__ = [
    "FixedChooser",
    "ScriptedDraft",
    "drafting_always",
    "right",
    "right_until_the_last",
    "wrong",
]

Guess = Callable[[DraftWish], Sequence[int]]


@dataclass
class ScriptedDraft:
    """Drafts what `guess` says of a wish, a token at a time; it may raise."""

    guess: Guess
    source: DraftSource = DraftSource.MODEL
    chance: float = 0.5
    foreseen: dict[int, tuple[int, ...]] = field(default_factory=dict)
    wishes: list[DraftWish] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    n_steps: int = 0

    def begin(self, wishes: Sequence[DraftWish]) -> "_Scripted":
        self.wishes += wishes
        return _Scripted(self, wishes)

    def forget(self, number: int) -> None:
        self.forgotten.append(number)


class _Scripted:
    def __init__(self, drafter: ScriptedDraft, wishes: Sequence[DraftWish]) -> None:
        self._drafter = drafter
        self._wishes = wishes
        self._texts: list[Sequence[int]] = []
        self._n = 0

    def advance(self) -> bool:
        if not self._texts:
            self._texts = [self._drafter.guess(wish) for wish in self._wishes]
        self._drafter.n_steps += 1
        self._n += 1
        most = zip(self._texts, self._wishes, strict=True)
        return any(self._n <= min(len(text), wish.n) for text, wish in most)

    def drafts(self) -> list[Draft]:
        drafts = []
        for place in range(len(self._wishes)):
            text = self._texts[place] if self._texts else ()
            tokens = tuple(text[: self._n])
            drafts.append(
                Draft(
                    source=self._drafter.source,
                    tokens=tokens,
                    chances=(self._drafter.chance,) * len(tokens),
                    foreseen=self._drafter.foreseen,
                )
            )
        return drafts


@dataclass
class FixedChooser:
    """Chooses the same plan each time, and keeps what it is asked and told."""

    plan: RoundPlan
    questions: list[RoundQuestion] = field(default_factory=list)
    outcomes: list[RoundOutcome] = field(default_factory=list)

    def choose(self, question: RoundQuestion) -> RoundPlan:
        self.questions.append(question)
        return self.plan

    def observe(self, outcome: RoundOutcome) -> None:
        self.outcomes.append(outcome)


def drafting_always(
    drafter: Drafter, n: int, *, in_flight: bool = True, prefetch: bool = False
) -> Speculation:
    """Return the speculation of a lane that drafts `n` tokens whenever it can."""
    plan = RoundPlan(
        source=drafter.source, n_drafts=n, prefetch=prefetch, why="as a test says"
    )
    return Speculation(
        drafters=(drafter,), chooser=FixedChooser(plan), in_flight=in_flight
    )


# What is guessed, given all that will be said: prompt and tokens.


def right(said: Sequence[int]) -> Guess:
    """Guess what will be said, then token 0."""

    def guess(wish: DraftWish) -> Sequence[int]:
        n = len(wish.tokens)
        return [*said[n : n + wish.n], *[0] * wish.n][: wish.n]

    return guess


def wrong(said: Sequence[int], n_vocab: int) -> Guess:
    """Guess what will not be said."""
    return lambda wish: [(token + 1) % n_vocab for token in right(said)(wish)]


def right_until_the_last(said: Sequence[int], n_vocab: int) -> Guess:
    """Guess right but for the last token of each draft."""

    def guess(wish: DraftWish) -> Sequence[int]:
        *first, last = right(said)(wish)
        return [*first, (last + 1) % n_vocab]

    return guess
