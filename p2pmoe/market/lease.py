"""Leases: the market's word that a worker may hold experts for a backbone.

One lease for each (worker, backbone, manifest); its id is derived from the three, so a
market that restarts grants the same lease again and nothing is held twice. A lease
names its full set of experts; only those that the worker has reported HELD are live,
and only live ones are published. It is renewed at 3/4 of its term and lapses at its
end. `now` is monotonic seconds; nothing here reads a clock.

    state      HELD      RENEWED   DRAIN     TERM_OVER  LOST    REVOKE   RELEASE
    GRANTED    LIVE      GRANTED   DRAINING  LAPSED     LAPSED  REVOKED  RELEASED
    LIVE       LIVE      LIVE      DRAINING  LAPSED     LAPSED  REVOKED  RELEASED
    DRAINING   DRAINING  DRAINING  DRAINING  LAPSED     LAPSED  REVOKED  RELEASED

LAPSED, REVOKED and RELEASED are final: such a lease is out of the table.
Source: design/06, "Offers and leases".
"""

import hashlib
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Protocol

from mobile_worker.expert_id import ExpertId
from p2pmoe.market.errors import UnknownLease
from p2pmoe.market.replicas import Replicas
from relay.keys import PeerId, short_id

__all__ = [
    "TERM_S",
    "TRANSITIONS",
    "Deployment",
    "Lease",
    "LeaseEvent",
    "LeaseState",
    "LeaseTable",
    "LiveListener",
    "lease_id_of",
]

# A worker that has not been heard for 45 s is given no work (B28).
TERM_S = 40
_LEASE_DOMAIN = b"p2pmoe lease v1\0"
_NO_REPLICAS = Replicas()


class LeaseState(Enum):
    """Where a lease stands."""

    GRANTED = auto()  # sent, nothing reported held yet
    LIVE = auto()  # something is held
    DRAINING = auto()  # the worker is leaving: nothing more is given to it
    LAPSED = auto()
    REVOKED = auto()
    RELEASED = auto()


class LeaseEvent(Enum):
    """What can happen to a lease."""

    HELD = auto()
    RENEWED = auto()
    DRAIN = auto()
    TERM_OVER = auto()
    LOST = auto()
    REVOKE = auto()
    RELEASE = auto()


_ENDINGS = {
    LeaseEvent.TERM_OVER: LeaseState.LAPSED,
    LeaseEvent.LOST: LeaseState.LAPSED,
    LeaseEvent.REVOKE: LeaseState.REVOKED,
    LeaseEvent.RELEASE: LeaseState.RELEASED,
    LeaseEvent.DRAIN: LeaseState.DRAINING,
}
_OPEN = (LeaseState.GRANTED, LeaseState.LIVE, LeaseState.DRAINING)

TRANSITIONS: Mapping[tuple[LeaseState, LeaseEvent], LeaseState] = {
    **{(state, event): end for state in _OPEN for event, end in _ENDINGS.items()},
    (LeaseState.GRANTED, LeaseEvent.HELD): LeaseState.LIVE,
    (LeaseState.LIVE, LeaseEvent.HELD): LeaseState.LIVE,
    (LeaseState.DRAINING, LeaseEvent.HELD): LeaseState.DRAINING,
    **{(state, LeaseEvent.RENEWED): state for state in _OPEN},
}


@dataclass(frozen=True, slots=True)
class Deployment:
    """One model as one backbone serves it."""

    backbone: PeerId
    manifest_hash: bytes


@dataclass(slots=True, kw_only=True, eq=False)
class Lease:
    """What one worker is to hold for one deployment. Changed only by its table."""

    lease_id: bytes
    worker: PeerId
    deployment: Deployment
    expires_at: float
    state: LeaseState = LeaseState.GRANTED
    experts: dict[ExpertId, float] = field(default_factory=dict)  # granted at
    held_since: dict[ExpertId, float] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether the lease is still in force."""
        return self.state in _OPEN

    @property
    def live(self) -> tuple[ExpertId, ...]:
        """Experts that may be asked of the worker now, in order."""
        if self.state is not LeaseState.LIVE:
            return ()
        return tuple(sorted(self.held_since))

    def has_live(self, expert: ExpertId) -> bool:
        """Whether the expert may be asked of the worker now."""
        return self.state is LeaseState.LIVE and expert in self.held_since


def lease_id_of(worker: PeerId, deployment: Deployment) -> bytes:
    """Return the 8-byte id that this worker's lease for this deployment always has."""
    parts = (worker, deployment.backbone, deployment.manifest_hash)
    return hashlib.sha256(_LEASE_DOMAIN + b"".join(parts)).digest()[:8]


class LiveListener(Protocol):
    """Who hears that a lease's live experts are others now.

    `by_market`: the market itself took what is missing; else its worker gave it up.
    """

    def __call__(self, lease: Lease, *, by_market: bool) -> None:
        """Hear of it, after the change."""


def _unheard(lease: Lease, *, by_market: bool) -> None:
    """Tell nobody."""


class LeaseTable:
    """All leases in force, and when each of them ends."""

    def __init__(self, term_s: float = TERM_S) -> None:
        self.term_s = term_s
        self.on_live: LiveListener = _unheard
        self._by_id: dict[bytes, Lease] = {}
        self._by_worker: dict[PeerId, dict[Deployment, Lease]] = {}
        self._by_deployment: dict[Deployment, dict[PeerId, Lease]] = {}
        self._ends: list[tuple[float, bytes]] = []
        self._replicas: dict[Deployment, Replicas] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._by_id.values())

    def of_worker(self, worker: PeerId) -> list[Lease]:
        """Return the worker's leases, one for each deployment."""
        return list(self._by_worker.get(worker, {}).values())

    def of_deployment(self, deployment: Deployment) -> list[Lease]:
        """Return the leases on a deployment's experts, one for each worker."""
        return list(self._by_deployment.get(deployment, {}).values())

    def n_holders(self, deployment: Deployment) -> int:
        """Return how many workers have a lease on a deployment's experts."""
        return len(self._by_deployment.get(deployment, ()))

    def replicas(self, deployment: Deployment) -> Replicas:
        """Return how many workers have each of a deployment's experts ready.

        The same object, with a greater version, while the deployment has any lease.
        """
        return self._replicas.get(deployment, _NO_REPLICAS)

    def find(self, worker: PeerId, deployment: Deployment) -> Lease | None:
        """Return this worker's lease for this deployment, if there is one."""
        return self._by_worker.get(worker, {}).get(deployment)

    def get(self, lease_id: bytes, worker: PeerId) -> Lease:
        """Return the lease that the worker names.

        Raises:
            UnknownLease: there is none, or it is another worker's.
        """
        lease = self._by_id.get(lease_id)
        if lease is None or lease.worker != worker:
            raise UnknownLease(
                f"lease {lease_id.hex()} is unknown for {short_id(worker)}: offer again"
            )
        return lease

    def grant(
        self,
        worker: PeerId,
        deployment: Deployment,
        add: Iterable[ExpertId],
        now: float,
    ) -> Lease:
        """Add experts to the worker's lease, making it if there is none."""
        lease = self.find(worker, deployment)
        if lease is None:
            lease = Lease(
                lease_id=lease_id_of(worker, deployment),
                worker=worker,
                deployment=deployment,
                expires_at=now + self.term_s,
            )
            self._by_id[lease.lease_id] = lease
            self._by_worker.setdefault(worker, {})[deployment] = lease
            self._by_deployment.setdefault(deployment, {})[worker] = lease
            heapq.heappush(self._ends, (lease.expires_at, lease.lease_id))
        for expert in add:
            lease.experts.setdefault(expert, now)
        return lease

    def held(self, lease: Lease, experts: Collection[ExpertId], now: float) -> bool:
        """Note what the worker has ready; return whether the live set changed.

        `experts` are added to what it reported before: less is said by RELEASE. What
        the lease does not name is ignored.
        """
        before = lease.live
        known = [expert for expert in experts if expert in lease.experts]
        for expert in known:
            lease.held_since.setdefault(expert, now)
        if known:
            self._advance(lease, LeaseEvent.HELD)
        return self._recount(lease, before)

    def renew(self, lease: Lease, now: float) -> None:
        """Start the term anew."""
        self._advance(lease, LeaseEvent.RENEWED)
        lease.expires_at = now + self.term_s

    def renew_all(self, now: float) -> None:
        """Start every term anew: renewals could not reach us."""
        for lease in self:
            self.renew(lease, now)

    def withdraw(
        self, lease: Lease, experts: Iterable[ExpertId], *, by_market: bool = False
    ) -> None:
        """Take experts out of a lease that goes on with the rest."""
        before = lease.live
        for expert in experts:
            lease.experts.pop(expert, None)
            lease.held_since.pop(expert, None)
        self._recount(lease, before, by_market=by_market)

    def drain(self, lease: Lease) -> None:
        """The worker is leaving: nothing of this lease is live any more."""
        before = lease.live
        self._advance(lease, LeaseEvent.DRAIN)
        self._recount(lease, before)

    def end(self, lease: Lease, event: LeaseEvent) -> None:
        """End a lease by LOST, REVOKE, RELEASE or TERM_OVER; it leaves the table."""
        before = lease.live
        self._advance(lease, event)
        self._recount(lease, before, by_market=event is LeaseEvent.REVOKE)
        del self._by_id[lease.lease_id]
        of_worker = self._by_worker[lease.worker]
        del of_worker[lease.deployment]
        if not of_worker:
            del self._by_worker[lease.worker]
        of_deployment = self._by_deployment[lease.deployment]
        del of_deployment[lease.worker]
        if not of_deployment:
            del self._by_deployment[lease.deployment]
            self._replicas.pop(lease.deployment, None)

    def overdue(self, now: float) -> list[Lease]:
        """Return the leases whose term is over and was not renewed."""
        found = []
        while self._ends and self._ends[0][0] <= now:
            _, lease_id = heapq.heappop(self._ends)
            lease = self._by_id.get(lease_id)
            if lease is None:
                continue
            if lease.expires_at <= now:
                found.append(lease)
            else:
                heapq.heappush(self._ends, (lease.expires_at, lease_id))
        return found

    def next_end(self) -> float | None:
        """Return when a lease may next be overdue; never later than the truth."""
        return self._ends[0][0] if self._ends else None

    def _recount(
        self, lease: Lease, before: tuple[ExpertId, ...], *, by_market: bool = False
    ) -> bool:
        """Count and tell what is live now; return whether it was other before."""
        after = lease.live
        if before == after:
            return False
        replicas = self._replicas.setdefault(lease.deployment, Replicas())
        replicas.remove(before)
        replicas.add(after)
        self.on_live(lease, by_market=by_market)
        return True

    def _advance(self, lease: Lease, event: LeaseEvent) -> None:
        lease.state = TRANSITIONS[lease.state, event]
