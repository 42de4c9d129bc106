"""Which experts the next layer will likely need: its router, asked a layer early.

A layer adds little to what flows through it, so the next layer's router gives much the
same answer to this layer's hidden states as to its own. The guess is compared with what
came true; where too little of it does, the layer is only guessed for now and then, to
see whether it has become better. Pure but for its own counts; for any thread: what a
thread guesses is compared with what that thread's steps need.
"""

import itertools
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats

__all__ = ["Foresight", "Guess", "Route"]

Indices = npt.NDArray[np.int64]
Route = Callable[[Floats], Indices]  # hidden f32 [n, n_embd] to experts [n, top_k]

MIN_RECALL = 0.5  # below, a guess costs more reads than it saves waits
_ALPHA = 0.05
_LOOK_EVERY = 32  # steps between looks at a layer that is not worth guessing for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guess:
    """A layer and the experts it will likely need, those for most rows first."""

    layer: int
    experts: Indices  # [n]


class Foresight:
    """Guesses, and how good they have been, by layer."""

    def __init__(self, routes: Mapping[int, Route]) -> None:
        """Ask `routes`, by layer, of the layers that have routed experts."""
        layers = sorted(routes)
        self._routes = dict(routes)
        self._next = dict(itertools.pairwise(layers))
        self._recall = dict.fromkeys(layers, 1.0)
        self._n_asked = dict.fromkeys(layers, 0)
        self._mine = threading.local()

    def guess(self, layer: int, hidden: Floats, experts: Indices) -> Guess | None:
        """Return what the layer after this one will need, None where it does not pay.

        `experts` [n, top_k] is what this layer needs: its own guess is judged by it.
        """
        self._judge(layer, experts)
        after = self._next.get(layer)
        if after is None:
            return None
        self._n_asked[after] += 1
        pays = self._recall[after] >= MIN_RECALL
        if not pays and self._n_asked[after] % _LOOK_EVERY:
            return None
        found, rows = np.unique(self._routes[after](hidden), return_counts=True)
        found = found[np.argsort(-rows, kind="stable")]
        self._mine.guess = Guess(layer=after, experts=found)
        return self._mine.guess if pays else None

    def recall(self) -> dict[int, float]:
        """Return by layer the share of experts that were guessed, of late."""
        return dict(self._recall)

    def _judge(self, layer: int, experts: Indices) -> None:
        guess: Guess | None = getattr(self._mine, "guess", None)
        if guess is None or guess.layer != layer:
            return
        self._mine.guess = None
        needed = np.unique(experts)
        share = float(np.isin(needed, guess.experts).mean()) if len(needed) else 0.0
        self._recall[layer] += _ALPHA * (share - self._recall[layer])
