"""Where a layer's routed experts are asked for: the seam between model and network.

The layer calls `begin` first, then computes its shared expert, then `compute` and
`finish`: whatever serves the experts may work in between, and who runs the step may do
something else as long as they are not ready (walk.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats

__all__ = ["ExpertCaller", "ExpertsHere", "PendingExperts", "Routing"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Routing:
    """Which experts each token goes to, in ascending expert id, and how they mix."""

    experts: npt.NDArray[np.int64]  # [n_tokens, top_k]
    weights: Floats  # [n_tokens, top_k], routed scaling included


class PendingExperts(Protocol):
    """Experts under way for one layer and step."""

    def compute(self) -> None:
        """Compute what needs nobody else; `finish` does it if this is not called."""
        ...

    def is_ready(self) -> bool:
        """Tell whether `finish` would wait for nobody."""
        ...

    def notify(self, ring: Callable[[], None]) -> None:
        """Have `ring` called once this is ready: now, or later from any thread.

        So that one thread can wait for whichever of several is ready first. It may be
        called more than once, and must not block.
        """
        ...

    def abandon(self) -> None:
        """Give this up: nobody will finish it."""
        ...

    def finish(self) -> Floats:
        """Wait for all and return the mixed sum, f32 [n_tokens, n_embd].

        Mixed as `combine` does: per token over its experts in ascending id.
        """
        ...


class ExpertsHere:
    """`PendingExperts` but for `finish`, where nobody else is asked."""

    __slots__ = ()

    def compute(self) -> None:
        """Leave it to `finish`."""

    def is_ready(self) -> bool:
        """Nobody else is asked."""
        return True

    def notify(self, ring: Callable[[], None]) -> None:
        """It is ready."""
        ring()

    def abandon(self) -> None:
        """Nothing is under way."""


class ExpertCaller(Protocol):
    """Whoever computes routed experts: this process, a network, a test."""

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> PendingExperts:
        """Start the experts of one layer for `hidden` f32 [n_tokens, n_embd].

        `hidden` is the normed input of the layer's feed-forward, uncoded.
        """
        ...
