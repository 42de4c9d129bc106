"""A step of a model under way: it stops at each layer's routed experts.

Whoever runs it may do other work while they are not ready: draft, or advance another
step. A step that nobody interrupts is `run`. For one thread at a time.
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
        self.n_passed = 0  # layers whose attention is done and whose experts are asked

    def advance(self) -> PendingExperts | None:
        """Run on to the next layer's experts, and return them; None at the end.

        Waits for the experts of the layer before, unless they are ready. Raises as
        `Model.step`; the step is over then.
        """
        try:
            with np.errstate(all="ignore"):
                pending = next(self._layers)
        except StopIteration as end:
            self._logits = end.value
            return None
        self.n_passed += 1
        return pending

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
        self._layers.close()
