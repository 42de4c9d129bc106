"""Remote experts that repeat: which one to fetch next, to be kept.

What a worker computes again and again costs a trip each time; fetched once, nobody
waiting for it, it is computed here from then on. Worth it is what pays by measured use
(fetch_rule.py), and only if the hot set would keep it: it decides whose place it takes.
One at a time, and no more than a tenth of the time: the link is for passes. Pure but
for its own notes; for one thread at a time.
"""

import math
from collections.abc import Callable, Collection

from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.use import UseCounts

__all__ = ["Keeping"]

_LOOK_EVERY_S = 0.5
_SHARE = 0.1  # of the time
_MOST_TRIED = 8  # candidates that are looked at in one go


class Keeping:
    """Remote experts that were needed since the last look."""

    def __init__(
        self, hot: HotSet, use: UseCounts, pays: Callable[[float], bool]
    ) -> None:
        """Ask `pays` whether an expert with this decayed count is worth a fetch."""
        self._hot = hot
        self._use = use
        self._pays = pays
        self._missed: set[ExpertId] = set()
        self._next_at = -math.inf
        self._began_at: float | None = None

    def missed(self, layer: int, experts: Collection[int]) -> None:
        """Note experts of a layer that are computed elsewhere."""
        self._missed.update(ExpertId(layer, index) for index in experts)

    def pick(self, now: float) -> ExpertId | None:
        """Return an expert to fetch now; None if it is not time or none is worth it."""
        if self._began_at is not None or now < self._next_at or not self._missed:
            return None
        self._next_at = now + _LOOK_EVERY_S
        missed, self._missed = self._missed, set()
        counts = self._use.decayed()
        sizes = self._hot.sizes
        known = [expert for expert in missed if expert in sizes]
        known.sort(key=lambda e: (-counts[e.layer, e.index] / sizes[e], e))
        for expert in known[:_MOST_TRIED]:
            if not self._pays(float(counts[expert.layer, expert.index])):
                continue
            if self._hot.has_place(expert):
                self._began_at = now
                return expert
        return None

    def ended(self, now: float) -> None:
        """Note that the fetch of what was picked is over, whatever came of it."""
        if self._began_at is not None:
            self._next_at = now + (now - self._began_at) * (1 / _SHARE - 1)
            self._began_at = None
