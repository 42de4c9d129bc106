"""Which experts the next layer will likely need: its router, asked a layer early.

A layer adds little to what flows through it, so the next layer's router gives much the
same answer to this layer's hidden states as to its own. The guess is compared with what
came true; where too little of it does, the layer is only guessed for now and then, to
see whether it has become better.

Reading ahead costs bytes and processor time and saves waits; which is more depends on
the disk, the cores and the model. So it is tried: steps with and without it take turns
in blocks, and the way with the shorter median step stays, for eight blocks (`Trial`).
Pure but for its own counts; for any thread: what a thread guesses is compared with what
that thread's steps need.
"""

import itertools
import statistics
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.model import Model
from p2pmoe.model.router import Router

__all__ = ["Foresight", "Guess", "Route", "Trial", "routes_of"]

Indices = npt.NDArray[np.int64]
Route = Callable[[Floats], Indices]  # hidden f32 [n, n_embd] to experts [n, top_k]

MIN_RECALL = 0.5  # below, a guess costs more reads than it saves waits
_ALPHA = 0.05
_LOOK_EVERY = 32  # steps between looks at a layer that is not worth guessing for
BLOCK = 32  # steps
_REST = 8  # blocks between trials of the way that was slower
_MOST_ROWS = 16  # of a step that tells: one that decodes


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Guess:
    """A layer and the experts it will likely need, those for most rows first."""

    layer: int
    experts: Indices  # [n]


class Trial:
    """Does a thing and leaves it out by turns, and stays with what is faster."""

    def __init__(self) -> None:
        """Begin with doing it."""
        self.is_on = True
        self._times: list[float] = []
        self._medians: dict[bool, float] = {}
        self._rest = 0

    def took(self, seconds: float) -> None:
        """Take in the time of a step; at the end of a block it may change `is_on`."""
        self._times.append(seconds)
        if len(self._times) < BLOCK:
            return
        self._medians[self.is_on] = statistics.median(self._times)
        self._times.clear()
        if len(self._medians) < 2:
            self.is_on = not self.is_on
            return
        faster = self._medians[True] <= self._medians[False]
        self._rest = self._rest - 1 if self._rest else _REST
        self.is_on = faster if self._rest else not faster


class Foresight:
    """Guesses, and how good they have been, by layer."""

    def __init__(
        self,
        routes: Mapping[int, Route],
        monotonic: Callable[[], float] = time.perf_counter,
    ) -> None:
        """Ask `routes`, by layer, of the layers that have routed experts."""
        layers = sorted(routes)
        self.trial = Trial()
        self._monotonic = monotonic
        self._first = min(layers, default=-1)
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
        if layer == self._first:
            self._time_step(len(experts))
        after = self._next.get(layer)
        if after is None or not self.trial.is_on:
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

    def _time_step(self, n_rows: int) -> None:
        """Time this thread's last step, if it was like the one that begins."""
        now = self._monotonic()
        began, rows = getattr(self._mine, "step", (now, 0))
        self._mine.step = now, n_rows
        if rows == n_rows <= _MOST_ROWS:
            self.trial.took(now - began)

    def _judge(self, layer: int, experts: Indices) -> None:
        guess: Guess | None = getattr(self._mine, "guess", None)
        if guess is None or guess.layer != layer:
            return
        self._mine.guess = None
        needed = np.unique(experts)
        share = float(np.isin(needed, guess.experts).mean()) if len(needed) else 0.0
        self._recall[layer] += _ALPHA * (share - self._recall[layer])


def routes_of(model: Model) -> dict[int, Route]:
    """Return what says, by layer, which experts rows go to."""

    def route(router: Router) -> Route:
        return lambda hidden: router.route(hidden).experts

    return {layer: route(router) for layer, router in model.routers().items()}
