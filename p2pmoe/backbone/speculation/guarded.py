"""Drafters behind a guard: whatever they do, a lane gets drafts that it can verify.

A drafter that raises, or names a token beyond the vocabulary, drafts no more for the
sequences it was drafting for (fault B17); each source is logged once. What it drafted
before stays: verification decides about tokens, not trust.
"""

import logging
import math
from collections.abc import Sequence

from p2pmoe.backbone.speculation.drafts import (
    Draft,
    Drafter,
    Drafting,
    DraftSource,
    DraftWish,
)

__all__ = ["GuardedDrafting", "Guards"]

log = logging.getLogger("p2pmoe.speculation")


class Guards:
    """Which sources are off for which sequences; for one lane."""

    def __init__(self, n_vocab: int) -> None:
        """Begin with all of them on; token ids are below `n_vocab`."""
        self._n_vocab = n_vocab
        self._off: dict[int, set[DraftSource]] = {}  # by sequence
        self._logged: set[DraftSource] = set()

    def allow(self, source: DraftSource, number: int) -> bool:
        """Whether a source may draft for a sequence."""
        return source not in self._off.get(number, ())

    def forget(self, number: int) -> None:
        """A sequence is over."""
        self._off.pop(number, None)

    def refuse(
        self, source: DraftSource, numbers: Sequence[int], why: str | Exception
    ) -> None:
        """Switch a source off for sequences, and log it if it is the first time."""
        for number in numbers:
            self._off.setdefault(number, set()).add(source)
        if source not in self._logged:
            self._logged.add(source)
            error = why if isinstance(why, Exception) else None
            log.warning(
                "drafter %s is off for a request: %s", source, why, exc_info=error
            )

    def begin(self, drafter: Drafter, wishes: Sequence[DraftWish]) -> "GuardedDrafting":
        """Begin to draft; an error shows as no drafts."""
        return GuardedDrafting(self, drafter, wishes)

    def cleaned(self, draft: Draft, wish: DraftWish) -> Draft:
        """Return what of a draft can be verified."""
        tokens = tuple(draft.tokens[: wish.n])
        for place, token in enumerate(tokens):
            if not 0 <= token < self._n_vocab:
                self.refuse(
                    draft.source,
                    [wish.number],
                    f"it drafts token {token}, and there are {self._n_vocab}",
                )
                tokens = tokens[:place]
                break
        chances = [c if math.isfinite(c) else 0.0 for c in draft.chances[: len(tokens)]]
        chances += [0.0] * (len(tokens) - len(chances))
        return Draft(
            source=draft.source,
            tokens=tokens,
            chances=tuple(chances),
            foreseen=draft.foreseen,
        )


class GuardedDrafting:
    """A `Drafting` that never raises."""

    def __init__(
        self, guards: Guards, drafter: Drafter, wishes: Sequence[DraftWish]
    ) -> None:
        """Begin; see `Guards.begin`."""
        self._guards = guards
        self._source = drafter.source
        self._wishes = wishes
        self._drafting: Drafting | None = None
        self._is_over = False
        try:
            self._drafting = drafter.begin(wishes)
        except Exception as error:  # noqa: BLE001 - a draft is never worth a request
            self._failed(error)

    def advance(self) -> bool:
        """Draft one more token of each sequence; False if there is no more to come."""
        if self._drafting is None or self._is_over:
            return False
        try:
            more = self._drafting.advance()
        except Exception as error:  # noqa: BLE001 - see above
            self._failed(error)
            return False
        self._is_over = not more
        return more

    def drafts(self) -> list[Draft]:
        """Return one clean draft for each wish, in order."""
        drafts: Sequence[Draft] = ()
        try:
            if self._drafting is not None:
                drafts = self._drafting.drafts()
            if len(drafts) != len(self._wishes):
                drafts = [Draft(source=self._source) for _ in self._wishes]
            return [
                self._guards.cleaned(draft, wish)
                for draft, wish in zip(drafts, self._wishes, strict=True)
            ]
        except Exception as error:  # noqa: BLE001 - see above
            self._failed(error)
            return [Draft(source=self._source) for _ in self._wishes]

    def _failed(self, error: Exception) -> None:
        self._is_over = True
        numbers = [wish.number for wish in self._wishes]
        self._guards.refuse(self._source, numbers, error)
