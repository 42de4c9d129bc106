"""The weights that were fetched for one pass: a buffer that goes with its step.

It is filled before the pass, by the decode thread that will run it, and holds no more
bytes than it was made for; nothing in it outlives the step.
"""

from collections.abc import Mapping, Sequence

from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId

__all__ = ["Ahead"]


class Ahead:
    """Experts at hand for one pass alone, and what was foreseen for it."""

    __slots__ = (
        "__weakref__",
        "_layers",
        "foreseen",
        "max_bytes",
        "n_bytes",
    )

    def __init__(
        self, foreseen: Mapping[int, Sequence[int]], max_bytes: int = 0
    ) -> None:
        """Begin empty, with room for `max_bytes` of shards."""
        self.foreseen = foreseen
        self.max_bytes = max_bytes
        self.n_bytes = 0
        self._layers: dict[int, dict[int, ExpertWeights]] = {}

    def put(self, expert: ExpertId, weights: ExpertWeights, n_bytes: int) -> bool:
        """Keep an expert for the pass; False if there is no room for it."""
        own = self._layers.setdefault(expert.layer, {})
        if expert.index in own or self.n_bytes + n_bytes > self.max_bytes:
            return False
        own[expert.index] = weights
        self.n_bytes += n_bytes
        return True

    def layer(self, layer: int) -> Mapping[int, ExpertWeights]:
        """Return the experts of a layer by index."""
        return self._layers.get(layer, {})

    def end(self) -> None:
        """Give all memory back: the pass is over."""
        self._layers.clear()
        self.max_bytes = self.n_bytes = 0
