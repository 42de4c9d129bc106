"""A step of a model under way: it stops at each layer's routed experts.

Whoever runs it may do other work while they are not ready: draft, or advance another
step. What a layer computes here, beside the experts that are elsewhere, can be put off
until there is nothing better to do (`ask`, then `compute`). A step that nobody
interrupts is `run`. For one thread at a time.
"""

from collections.abc import Callable, Generator
from typing import TypeAlias

import numpy as np

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.model.experts import PendingExperts, Routing
from p2pmoe.model.router import Router

__all__ = ["Layers", "Routes", "Walk"]

Layers: TypeAlias = Generator[PendingExperts, None, list[Floats]]

# Where a layer's rows go: layer, its router, hidden f32 [n_tokens, n_embd].
Routes: TypeAlias = Callable[[int, Router, Floats], Routing]


class Walk:
    """One step, layer by layer."""

    def __init__(self, layers: Layers) -> None:
        """Begin before the first layer; nothing has been computed."""
        self._layers = layers
        self._logits: list[Floats] | None = None
        self._left: PendingExperts | None = None  # to be computed here
        self.n_passed = 0  # layers whose attention is done and whose experts are asked

    def advance(self) -> PendingExperts | None:
        """Run on to the next layer's experts, and return them; None at the end.

        Waits for the experts of the layer before, unless they are ready, and computes
        what of the next is here. Raises as `Model.step`; the step is over then.
        """
        with np.errstate(all="ignore"):
            pending = self._next()
            self._compute()
        return pending

    def ask(self) -> PendingExperts | None:
        """Do as `advance`, but leave what is here to `compute`, or to the next call."""
        with np.errstate(all="ignore"):
            return self._next()

    @property
    def leaves_work(self) -> bool:
        """Whether the latest layer has something to compute here."""
        return self._left is not None

    def compute(self) -> None:
        """Compute what is here of the latest layer, if that was left; as `advance`."""
        with np.errstate(all="ignore"):
            self._compute()

    def _next(self) -> PendingExperts | None:
        self._left = None  # `finish` computes what was left
        try:
            self._left = next(self._layers)
        except StopIteration as end:
            self._logits = end.value
            return None
        self.n_passed += 1
        return self._left

    def _compute(self) -> None:
        left, self._left = self._left, None
        if left is None:
            return
        try:
            left.compute()
        except BaseException:
            self._layers.close()
            raise

    def run(self) -> list[Floats]:
        """Run to the end and return the logits of each part; raises as `Model.step`."""
        while self.advance() is not None:
            pass
        return self.logits

    @property
    def logits(self) -> list[Floats]:
        """The logits of each part, once `advance` gave None; ValueError before."""
        if self._logits is None:
            raise ValueError("the step is not over")
        return self._logits

    def close(self) -> None:
        """Give the step up: its caches stay as they were."""
        self._left = None
        self._layers.close()
