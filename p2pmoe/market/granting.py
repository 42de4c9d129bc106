"""From assignment to leases: free room is filled, and earlier holdings come back first.

Who has room and was given nothing waits: hubs, laptops and the rest each in their own
row. When experts need holders again, those who have just come or got room are asked
first, in an order that nobody can foresee, then those who wait, the longest first; so a
loss costs what it takes to repair it, whatever the number of devices. At most 2,000 are
asked in vain in one go (each has told us already that it does not take them, or lies in
a domain that holds them); the rest of the row is asked the next time.

Pure; works on the market's own tables.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from mobile_worker.expert_id import ExpertId
from p2pmoe.market.assignment import Assignment
from p2pmoe.market.deployments import expert_of
from p2pmoe.market.devices import ExpertKey
from p2pmoe.market.lease import Deployment, Lease, LeaseTable
from p2pmoe.market.remembered import Remembered
from p2pmoe.market.roster import Roster, Worker
from p2pmoe.market.wanted import Order, order_of, rank
from relay.keys import PeerId

__all__ = ["Granting"]

_MAX_IN_VAIN = 2_000


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
        self._waiting: dict[Order, dict[PeerId, None]] = {order: {} for order in Order}
        self._came: dict[PeerId, None] = {}

    def give_back(self, worker: Worker, now: float) -> None:
        """Grant again what the worker reported held before and has in its store.

        Shards are recognised by their hash, so a model that is listed anew by another
        backbone counts too.
        """
        self._came[worker.peer] = None
        digests = self._remembered.holdings(worker.peer)
        for listing in self._roster.listings.values():
            for digest in sorted(digests & listing.by_digest.keys()):
                for shard in listing.by_digest[digest]:
                    if self._may_have_back(worker, shard.key):
                        self._assignment.hold(worker.device, shard.key)
                        self.grant(worker.peer, [shard.key], now)

    def ask(self, peer: PeerId) -> None:
        """A worker may hold more than it did: ask it with those that have come."""
        self._came[peer] = None

    def fill(self, now: float) -> list[Lease]:
        """Fill free room as long as experts need it; return the leases that grew."""
        rows = self._rows()
        changed: list[Lease] = []
        for order in Order:
            for peer, keys in self._fill_row(order, rows[order]):
                changed += self.grant(peer, keys, now)
        return changed

    def forget(self, peer: PeerId) -> None:
        """A worker is there no more: it waits for nothing."""
        self._came.pop(peer, None)
        for waiting in self._waiting.values():
            waiting.pop(peer, None)

    def grant(self, peer: PeerId, keys: Iterable[ExpertKey], now: float) -> list[Lease]:
        """Add experts that the worker is counted for to its leases; return these."""
        return [
            self._leases.grant(peer, deployment, experts, now)
            for deployment, experts in self._by_deployment(keys).items()
        ]

    def _rows(self) -> dict[Order, list[Worker]]:
        """Return who has come or got room since the last time, by order."""
        freed = self._assignment.take_freed()
        peers = dict.fromkeys([*self._came, *(PeerId(name) for name in freed)])
        self._came.clear()
        found = [self._roomy(peer) for peer in peers]
        workers = {each.device.name: each for each in found if each is not None}
        rows: dict[Order, list[Worker]] = {order: [] for order in Order}
        for device in self._assignment.shuffled(w.device for w in workers.values()):
            rows[order_of(device.device_class)].append(workers[device.name])
        return rows

    def _fill_row(
        self, order: Order, first: Sequence[Worker]
    ) -> Iterator[tuple[PeerId, list[ExpertKey]]]:
        waiting = self._waiting[order]
        needs_any = self._assignment.has_needs
        newcomers = dict.fromkeys(worker.peer for worker in first)
        asked: list[PeerId] = []
        if needs_any(order):
            asked = [*newcomers, *(peer for peer in waiting if peer not in newcomers)]
        waiting.update(newcomers)
        n_in_vain = 0
        for peer in asked:
            if n_in_vain >= _MAX_IN_VAIN or not needs_any(order):
                break
            del waiting[peer]
            worker = self._roomy(peer)
            if worker is None:
                continue
            keys = self._assignment.fill(worker.device)
            n_in_vain += not keys
            if worker.device.room_bytes > 0:
                waiting[peer] = None
            if keys:
                yield peer, keys

    def _roomy(self, peer: PeerId) -> Worker | None:
        worker = self._roster.workers.get(peer)
        if worker is None or worker.is_draining or worker.device.is_full:
            return None
        return worker

    def _by_deployment(
        self, keys: Iterable[ExpertKey]
    ) -> dict[Deployment, list[ExpertId]]:
        found: dict[Deployment, list[ExpertId]] = defaultdict(list)
        for key in keys:
            found[self._roster.listing_of(key).deployment].append(expert_of(key))
        return found

    def _may_have_back(self, worker: Worker, key: ExpertKey) -> bool:
        device, state = worker.device, self._assignment.states[key]
        if device.is_full or not device.takes(key):
            return False
        if state.wanted.n_bytes > device.room_bytes:
            return False
        # A phone gets nothing back that it must not hold: outside the tail, or alone.
        order = order_of(device.device_class)
        return not device.device_class.is_mobile or rank(state, order) is not None
