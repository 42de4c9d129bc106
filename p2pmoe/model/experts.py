"""Where a layer's routed experts are asked for: the seam between model and network.

The layer calls `begin` first; then come its shared expert (`WithBeside`) and what is
computed here, and last `finish`: whatever serves the experts may work in between, and
who runs the step may do something else as long as they are not ready (walk.py).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import Floats

__all__ = ["ExpertCaller", "ExpertsHere", "PendingExperts", "Routing", "WithBeside"]


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


class WithBeside:
    """`PendingExperts` and what every row goes through beside them: a shared expert."""

    __slots__ = ("_beside", "_hidden", "_own", "_pending")

    def __init__(
        self,
        pending: PendingExperts,
        beside: Callable[[Floats], Floats],
        hidden: Floats,
    ) -> None:
        """Have nothing computed yet; `hidden` is what `beside` is given."""
        self._pending = pending
        self._beside = beside
        self._hidden = hidden
        self._own: Floats | None = None

    def compute(self) -> None:
        """Compute what is beside them, and then what they need nobody else for."""
        if self._own is None:
            self._own = self._beside(self._hidden)
        self._pending.compute()

    def is_ready(self) -> bool:
        """Tell whether they are."""
        return self._pending.is_ready()

    def notify(self, ring: Callable[[], None]) -> None:
        """Have `ring` called once they are ready."""
        self._pending.notify(ring)

    def abandon(self) -> None:
        """Give them up."""
        self._pending.abandon()

    def finish(self) -> Floats:
        """Return their mixed sum and what is beside it, f32 [n_tokens, n_embd]."""
        own = self._beside(self._hidden) if self._own is None else self._own
        mixed: Floats = self._pending.finish()
        return mixed + own


class ExpertCaller(Protocol):
    """Whoever computes routed experts: this process, a network, a test."""

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> PendingExperts:
        """Start the experts of one layer for `hidden` f32 [n_tokens, n_embd].

        `hidden` is the normed input of the layer's feed-forward, uncoded.
        """
        ...
