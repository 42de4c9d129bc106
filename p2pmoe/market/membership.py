"""Who holds what, as workers come, change, give back and leave: all tables in step.

A worker that leaves, for whatever reason, is out of the assignment, of moves and of the
lease table at once; what it held is then the repair queue's. What is known of it from
measuring (how long it stays, from where the relays see it) is counted anew while it
holds experts, and never forgotten by its leaving.

Pure; works on the market's own tables.
"""

from collections.abc import Collection
from dataclasses import dataclass

from mobile_worker.expert_id import ExpertId
from p2pmoe.market.assignment import Assignment
from p2pmoe.market.attendance import has_changed
from p2pmoe.market.deployments import key_of
from p2pmoe.market.devices import ExpertKey
from p2pmoe.market.lease import Deployment, Lease, LeaseEvent, LeaseTable
from p2pmoe.market.moving import Moving
from p2pmoe.market.remembered import Remembered
from p2pmoe.market.roster import Roster, Worker
from relay.keys import PeerId

__all__ = ["Membership"]


@dataclass(frozen=True, slots=True)
class Membership:
    """The tables that a worker's coming and leaving concerns."""

    assignment: Assignment
    leases: LeaseTable
    roster: Roster
    moving: Moving
    remembered: Remembered

    def came(self, worker: Worker, now: float) -> None:
        """A worker offers: it is there, and counted by what is known of it."""
        self.remembered.attendance.came(worker.peer, now)
        self.restate(worker, now)

    def restate(self, worker: Worker, now: float) -> bool:
        """Count what a worker holds by where it is seen and how long it stays.

        Returns whether that has changed.
        """
        device = worker.device
        attendance = self.remembered.attendance
        stay = attendance.stay(worker.peer, device.device_class, now)
        if not has_changed(device, stay):
            stay = (device.availability, device.departures)
        domain = self.roster.domain_of(worker)
        return self.assignment.restate(device, domain=domain, stay=stay)

    def drain(self, worker: Worker, now: float) -> list[Deployment]:
        """A worker is leaving; return the deployments of its leases."""
        worker.is_draining = True
        leases = self.leases.of_worker(worker.peer)
        for lease in leases:
            self.leases.drain(lease)
        self.remembered.attendance.left(worker.peer, now)
        self.moving.forget(worker.peer)
        self.assignment.release_all(worker.device)
        return [lease.deployment for lease in leases]

    def end(self, peer: PeerId, event: LeaseEvent, now: float) -> list[Deployment]:
        """A worker is there no more; return the deployments whose leases have ended."""
        self.moving.forget(peer)
        worker = self.roster.leave(peer)
        if worker is None:
            return []
        self.remembered.attendance.left(peer, now)
        self.remembered.version += 1
        self.assignment.release_all(worker.device)
        leases = self.leases.of_worker(peer)
        for lease in leases:
            self.leases.end(lease, event)
        return [lease.deployment for lease in leases]

    def give_back(self, lease: Lease, experts: Collection[ExpertId]) -> None:
        """A worker gives experts back: it is not offered them again, nor others."""
        number = self.roster.listings[lease.deployment].number
        device = self.roster.workers[lease.worker].device
        given_back = lease.experts.keys() & experts
        for expert in sorted(given_back):
            key = key_of(number, expert)
            device.decline(key)
            n_bytes = device.held.get(key, 0)
            self._let_go(lease.worker, key)
            device.room_bytes -= n_bytes
        self.leases.withdraw(lease, given_back)
        if not lease.experts:
            self.leases.end(lease, LeaseEvent.RELEASE)
        self.note_holdings(lease.worker)

    def revoke(self, lease: Lease) -> None:
        """Take a lease back; the worker stays, and its room is for others."""
        number = self.roster.listings[lease.deployment].number
        for expert in lease.experts:
            self._let_go(lease.worker, key_of(number, expert))
        self.leases.end(lease, LeaseEvent.REVOKE)

    def note_holdings(self, peer: PeerId) -> None:
        """Remember what a worker holds, for when it comes back."""
        digests: list[bytes] = []
        for lease in self.leases.of_worker(peer):
            listing = self.roster.listings[lease.deployment]
            digests += listing.digests_of(lease.held_since)
        self.remembered.note_holdings(peer, digests)

    def _let_go(self, peer: PeerId, key: ExpertKey) -> None:
        self.moving.cancel(peer, key)
        device = self.roster.workers[peer].device
        if key in device.held:
            self.assignment.release(device, key)
