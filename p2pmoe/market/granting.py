"""From assignment to leases: free room is filled, and earlier holdings come back first.

Pure; works on the market's own tables.
"""

from collections import defaultdict
from collections.abc import Iterable

from mobile_worker.expert_id import ExpertId
from p2pmoe.market.assignment import Assignment
from p2pmoe.market.deployments import expert_of
from p2pmoe.market.devices import ExpertKey
from p2pmoe.market.lease import Deployment, Lease, LeaseTable
from p2pmoe.market.remembered import Remembered
from p2pmoe.market.roster import Roster, Worker
from p2pmoe.market.wanted import order_of, rank
from relay.keys import PeerId

__all__ = ["Granting"]


class Granting:
    """Gives experts to workers, in the assignment and in their leases alike."""

    def __init__(
        self,
        assignment: Assignment,
        leases: LeaseTable,
        roster: Roster,
        remembered: Remembered,
    ) -> None:
        self._assignment = assignment
        self._leases = leases
        self._roster = roster
        self._remembered = remembered

    def give_back(self, worker: Worker, now: float) -> None:
        """Grant again what the worker reported held before and has in its store.

        Shards are recognised by their hash, so a model that is listed anew by another
        backbone counts too.
        """
        digests = self._remembered.holdings(worker.peer)
        for listing in self._roster.listings.values():
            for digest in sorted(digests & listing.by_digest.keys()):
                for shard in listing.by_digest[digest]:
                    if self._may_have_back(worker, shard.key):
                        self._assignment.hold(worker.device, shard.key)
                        self.grant(worker.peer, [shard.key], now)

    def fill(self, now: float) -> list[Lease]:
        """Fill all free room, hubs first; return the leases that grew."""
        roomy = [
            worker.device
            for worker in self._roster.workers.values()
            if worker.device.room_bytes > 0 and not worker.is_draining
        ]
        changed: list[Lease] = []
        for name, keys in self._assignment.fill_all(roomy).items():
            changed += self.grant(PeerId(name), keys, now)
        return changed

    def grant(self, peer: PeerId, keys: Iterable[ExpertKey], now: float) -> list[Lease]:
        """Add experts that the worker is counted for to its leases; return these."""
        return [
            self._leases.grant(peer, deployment, experts, now)
            for deployment, experts in self._by_deployment(keys).items()
        ]

    def _by_deployment(
        self, keys: Iterable[ExpertKey]
    ) -> dict[Deployment, list[ExpertId]]:
        found: dict[Deployment, list[ExpertId]] = defaultdict(list)
        for key in keys:
            found[self._roster.listing_of(key).deployment].append(expert_of(key))
        return found

    def _may_have_back(self, worker: Worker, key: ExpertKey) -> bool:
        device, state = worker.device, self._assignment.states[key]
        if not device.takes(key) or state.wanted.n_bytes > device.room_bytes:
            return False
        # A phone gets nothing back that it must not hold: outside the tail, or alone.
        order = order_of(device.device_class)
        return not device.device_class.is_mobile or rank(state, order) is not None
