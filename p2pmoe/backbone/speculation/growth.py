"""One sequence's draft as a model draws it, token by token, and when it is long enough.

Drawn as the request itself would at that position: with its settings, its penalties
over all tokens before, and the noise of its seed there. So a sampled draft agrees about
as often as the two models' distributions do.
"""

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.speculation.drafts import DraftWish
from p2pmoe.model.sampler import sample

__all__ = ["Growth"]

_MOST = 80.0  # e to this is still a number


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

    def draw(self, logits: Floats) -> None:
        """Draw what follows by f32 [n_vocab], unless that is too unlikely to be right.

        The chance is the token's own probability in the model that drafts.
        """
        token = sample(logits, self._sampling, self._tokens, len(self._tokens))
        above = np.minimum(logits - logits[token], np.float32(_MOST))
        chance = float(1.0 / np.exp(above).sum(dtype=np.float64))
        self._product *= chance
        if self._product < self._floor:
            self._most = len(self.drawn)
            return
        self.drawn.append(token)
        self.chances.append(chance)
        self._tokens.append(token)
