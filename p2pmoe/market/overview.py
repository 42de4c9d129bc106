"""How a deployment is held as a whole: copies, what needs repair, what copies cost.

Replication is not free: full replication doubles the memory that a model takes. So the
market says with each change what its placement costs in bytes beyond one copy of each
expert. Pure.

Source: design/06, "Assignment" (asymmetric replication).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from p2pmoe.market.assignment import Assignment
from p2pmoe.market.coverage import replica_overhead_bytes
from p2pmoe.market.deployments import Listing
from p2pmoe.market.lease import LeaseTable

__all__ = ["Overview", "OverviewNews", "overview_of"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Copies are those that workers have ready; repair counts what is promised too.

    n_below_floor: experts that lack replicas whatever the demand is. overhead_bytes:
    of copies beyond one of each.
    """

    n_experts: int
    n_ready: int
    n_replicas: int
    n_below_floor: int
    overhead_bytes: int

    def line(self, name: str) -> str:
        """Return it in words, for a log."""
        parts = [
            f"{name}: {self.n_ready} of {self.n_experts} experts on workers",
            f"{self.n_replicas} copies",
            f"{self.overhead_bytes / (1 << 20):,.1f} MiB beyond one of each",
        ]
        if self.n_below_floor:
            parts.append(f"{self.n_below_floor} below their floor")
        return ", ".join(parts)


def overview_of(
    listing: Listing, leases: LeaseTable, assignment: Assignment
) -> Overview:
    """Return how a deployment is held now; it looks at each expert once."""
    counts = leases.replicas(listing.deployment).counts
    states = [assignment.states.get(shard.key) for shard in listing.shards]
    return Overview(
        n_experts=len(listing.shards),
        n_ready=len(counts),
        n_replicas=sum(counts.values()),
        n_below_floor=sum(s is not None and s.is_below_floor for s in states),
        overhead_bytes=sum(
            replica_overhead_bytes(shard.n_bytes, counts.get(shard.expert, 0))
            for shard in listing.shards
        ),
    )


class OverviewNews:
    """What has changed of all deployments since it was last told."""

    def __init__(self) -> None:
        self._told: list[str] = []

    def take(
        self, listings: Iterable[Listing], leases: LeaseTable, assignment: Assignment
    ) -> list[str]:
        """Return a line for each deployment that is held otherwise than last time."""
        lines = [
            overview_of(listing, leases, assignment).line(listing.name)
            for listing in listings
        ]
        news = [line for line in lines if line not in self._told]
        self._told = lines
        return news
