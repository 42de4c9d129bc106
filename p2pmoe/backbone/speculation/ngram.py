"""Drafts what followed the same tokens earlier in the sequence (prompt lookup).

The longest suffix of 2 to 12 tokens that occurred before, at its latest place, says
what comes next. The index grows by one entry a token: for each pair of neighbours its
latest place, and for each place the one before it with the same pair, so that a look
compares at most `MOST_PLACES` places. Drafts of tokens that were not committed in the
end are taken out of it again.
"""

from collections.abc import Sequence
from typing import Final

from p2pmoe.backbone.speculation.drafts import Draft, DraftSource, DraftWish

__all__ = ["LONGEST", "MOST_PLACES", "SHORTEST", "NgramDraft", "NgramDrafting"]

SHORTEST: Final = 2
LONGEST: Final = 12
MOST_PLACES: Final = 64
_TAIL: Final = 256  # tokens at the end that may have changed since the last look

# How often a drafted token is right, by the match's length.
_CHANCES: Final = (0.0, 0.0, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.87, 0.9, 0.92, 0.95)


class NgramDraft:
    """A `Drafter` that copies; no model is run."""

    source = DraftSource.NGRAM

    def __init__(self) -> None:
        """Begin without any sequence."""
        self._indexes: dict[int, _Index] = {}

    def begin(self, wishes: Sequence[DraftWish]) -> "NgramDrafting":
        """Begin; looking up is what `advance` does."""
        return NgramDrafting(self, wishes)

    def find(self, number: int, tokens: Sequence[int]) -> tuple[int, int]:
        """Return where what followed begins, and the match's length, 0 for none."""
        index = self._indexes.get(number)
        if index is None:
            index = self._indexes[number] = _Index()
        index.follow(tokens)
        return index.find()

    def forget(self, number: int) -> None:
        """Drop the index of a sequence."""
        self._indexes.pop(number, None)


class NgramDrafting:
    """Copies under way."""

    def __init__(self, drafter: NgramDraft, wishes: Sequence[DraftWish]) -> None:
        """Hold wishes."""
        self._drafter = drafter
        self._wishes = wishes
        self._drafts: list[Draft] | None = None

    def advance(self) -> bool:
        """Draft all at once, for copying costs nothing; False from then on."""
        if self._drafts is not None:
            return False
        self._drafts = [_copy(self._drafter, wish) for wish in self._wishes]
        return any(draft.tokens for draft in self._drafts)

    def drafts(self) -> list[Draft]:
        """Return what was drafted so far, one for each wish."""
        if self._drafts is None:
            return [Draft(source=DraftSource.NGRAM) for _ in self._wishes]
        return self._drafts


def _copy(drafter: NgramDraft, wish: DraftWish) -> Draft:
    start, length = drafter.find(wish.number, wish.tokens)
    if length == 0:
        return Draft(source=DraftSource.NGRAM)
    period = len(wish.tokens) - start  # beyond it, the copy goes on from itself
    copied = tuple(wish.tokens[start + i % period] for i in range(wish.n))
    return Draft(
        source=DraftSource.NGRAM,
        tokens=copied,
        chances=(_CHANCES[length],) * len(copied),
    )


class _Index:
    """Where each pair of neighbours occurred in one sequence."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._latest: dict[tuple[int, int], int] = {}  # pair to where its second is
        self._before: list[int] = []  # the place before with the same pair; -1: none

    def follow(self, tokens: Sequence[int]) -> None:
        """Take in tokens, of which only the end may differ from those known."""
        known = self._tokens
        while len(known) > len(tokens):
            self._pop()
        low = max(0, len(known) - _TAIL)
        if known[low:] != list(tokens[low : len(known)]):
            at = low
            while at < len(known) and known[at] == tokens[at]:
                at += 1
            while len(known) > at:
                self._pop()
        for token in tokens[len(known) :]:
            self._push(token)

    def _push(self, token: int) -> None:
        known, before = self._tokens, -1
        if known:
            pair = known[-1], token
            before = self._latest.get(pair, -1)
            self._latest[pair] = len(known)
        known.append(token)
        self._before.append(before)

    def _pop(self) -> None:
        token, before = self._tokens.pop(), self._before.pop()
        if not self._tokens:
            return
        pair = self._tokens[-1], token
        if before < 0:
            del self._latest[pair]
        else:
            self._latest[pair] = before

    def find(self) -> tuple[int, int]:
        """Return where what followed begins, and how long the match is."""
        tokens = self._tokens
        best, best_length = 0, 0
        place = self._before[-1] if tokens else -1
        for _ in range(MOST_PLACES):
            if place < 0 or best_length == LONGEST:
                break
            length = SHORTEST
            while (
                length < LONGEST
                and length <= place
                and tokens[place - length] == tokens[-1 - length]
            ):
                length += 1
            if length > best_length:
                best, best_length = place + 1, length
            place = self._before[place]
        return best, best_length
