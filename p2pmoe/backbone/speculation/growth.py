"""One sequence's draft as a model draws it, token by token, and when it is long enough.

Drawn as the request itself would at that position: with its settings, its penalties
over all tokens before, and the noise of its seed there. So a sampled draft agrees about
as often as the two models' distributions do. By how much a token won, noise included,
tells how likely the other model is to draw it too.
"""

import math
from typing import Final

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.speculation.drafts import Draft, DraftSource, DraftWish
from p2pmoe.model.sampler import sample_closely

__all__ = ["Growth", "chance_of"]

# Fitted for the model drafting for itself with half of its experts at hand (ADR 43);
# the same for greedy and sampled text, because the margin has the noise in it.
_EVEN: Final = -0.2
_STEEP: Final = 2.3
_MOST: Final = 50.0


def chance_of(margin: float) -> float:
    """Return how likely a token that won by so many logits is to be accepted."""
    return 1.0 / (1.0 + math.exp(-min(_MOST, _EVEN + _STEEP * margin)))


class Growth:
    """The tokens drawn so far, each with its chance to be accepted."""

    def __init__(self, wish: DraftWish, room: int) -> None:
        """Begin without any; at most `room` tokens can be run."""
        self.drawn: list[int] = []
        self.chances: list[float] = []
        self._sampling = wish.sampling
        self._tokens = list(wish.tokens)
        self._floor = wish.floor
        self._most = min(wish.n, room)
        self._product = 1.0  # of the chances

    @property
    def wants_more(self) -> bool:
        """Whether another token is to be drawn."""
        return len(self.drawn) < self._most

    @property
    def last(self) -> list[int]:
        """The token to be run next, alone in a list."""
        return self._tokens[-1:]

    def draft(self, source: DraftSource) -> Draft:
        """Return the draft so far, as one by `source`."""
        return Draft(
            source=source, tokens=tuple(self.drawn), chances=tuple(self.chances)
        )

    def draw(self, logits: Floats) -> None:
        """Draw what follows, by f32 [n_vocab], unless that is too unlikely."""
        place = len(self._tokens)
        token, margin = sample_closely(logits, self._sampling, self._tokens, place)
        chance = chance_of(margin)
        self._product *= chance
        if self._product < self._floor:
            self._most = len(self.drawn)
            return
        self.drawn.append(token)
        self.chances.append(chance)
        self._tokens.append(token)
