"""How many workers have each expert ready, kept while leases change.

Counted are the experts of LIVE leases that are held: what a placement would name. A
change costs the size of the lease that changed, a reader nothing. Pure.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from mobile_worker.expert_id import ExpertId

__all__ = ["Replicas"]


class Replicas:
    """Live replicas of the experts of one deployment.

    `version` grows with every change; `n_held` counts all replicas together.
    """

    __slots__ = ("_counts", "n_held", "version")

    def __init__(self) -> None:
        self._counts: dict[ExpertId, int] = {}
        self.version = 0
        self.n_held = 0

    @property
    def counts(self) -> Mapping[ExpertId, int]:
        """Replicas by expert; those without any are left out."""
        return MappingProxyType(self._counts)

    def add(self, experts: Iterable[ExpertId]) -> None:
        """Count one more worker with these experts."""
        for expert in experts:
            self._counts[expert] = self._counts.get(expert, 0) + 1
            self.n_held += 1
            self.version += 1

    def remove(self, experts: Iterable[ExpertId]) -> None:
        """Take a worker out that was added with these experts."""
        for expert in experts:
            left = self._counts[expert] - 1
            if left:
                self._counts[expert] = left
            else:
                del self._counts[expert]
            self.n_held -= 1
            self.version += 1
