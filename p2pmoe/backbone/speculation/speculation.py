"""What a lane drafts by: its drafters, who chooses among them, and what came of it.

One lane's alone, and used on its thread: drafters and chooser keep state. Others may
read the counts, a round late.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

from p2pmoe.backbone.prefetch.prefetching import Prefetching
from p2pmoe.backbone.speculation.drafts import Drafter, DraftSource, DraftWish
from p2pmoe.backbone.speculation.rounds import Chooser

__all__ = [
    "Foreseer",
    "Matcher",
    "Speculation",
    "SpeculationCounts",
    "SpeculationMaker",
]


@runtime_checkable
class Matcher(Protocol):
    """A drafter that can tell how much of a sequence's end occurred before."""

    def find(self, number: int, tokens: Sequence[int]) -> tuple[int, int]:
        """Return where what followed it begins in `tokens`, and how long it is.

        A length of 0 is none.
        """
        ...


@runtime_checkable
class Foreseer(Protocol):
    """A drafter that can tell which experts rows will need, without drafting them."""

    def foresee(
        self, wishes: Sequence[DraftWish], drafts: Sequence[tuple[int, ...]]
    ) -> list[Mapping[int, tuple[int, ...]]]:
        """Return `Draft.foreseen` for each wish's last token and its drafts.

        As a drafter it writes behind what the wish's cache holds, and nothing else.
        """
        ...


@dataclass(slots=True)
class SpeculationCounts:
    """Sums over a lane's rounds, by source; None are rounds without drafts."""

    n_rounds: dict[DraftSource | None, int] = field(default_factory=dict)
    n_drafted: dict[DraftSource, int] = field(default_factory=dict)
    n_accepted: dict[DraftSource, int] = field(default_factory=dict)
    n_committed: int = 0  # tokens of decoding sequences
    n_passes: int = 0  # of decoding sequences: each counts a pass that it was in
    n_failed: int = 0  # passes that were run again without their drafts


@dataclass(frozen=True, slots=True, kw_only=True)
class Speculation:
    """The parts; `drafters` has at most one of each source, the preferred one first.

    `max_drafts` bounds what is drafted for a sequence, whatever the chooser wants.
    `in_flight`: drafting goes on while a verification waits for workers.
    """

    drafters: tuple[Drafter, ...]
    chooser: Chooser
    max_drafts: int = 16
    in_flight: bool = True
    prefetch: Prefetching | None = None
    counts: SpeculationCounts = field(default_factory=SpeculationCounts)

    def drafter(self, source: DraftSource) -> Drafter | None:
        """Return who drafts in a way; None if nobody does."""
        return next((own for own in self.drafters if own.source is source), None)

    def foreseer(self) -> Foreseer | None:
        """Return the drafter that foresees experts; None if there is none."""
        return next((own for own in self.drafters if isinstance(own, Foreseer)), None)

    def matcher(self) -> Matcher | None:
        """Return the drafter that copies; None if there is none."""
        return next((own for own in self.drafters if isinstance(own, Matcher)), None)


# Makes the speculation of one lane.
SpeculationMaker: TypeAlias = Callable[[], Speculation]
