"""The leases of this worker: what to hold, what to report, when to renew; no I/O.

A LEASE names the full set of experts of its id and replaces the one before. A term is
renewed at 3/4 of it; the market answers a RENEW only when something is wrong, so that
sending one extends the term here, and it is said twice, since messages may be lost. If
the market does not know a lease any more, all are in doubt and lapse within seconds
unless a LEASE confirms them. What is held is reported whole, again whenever it changes
or the market may have forgotten; a lease in doubt is not, since the market would refuse
it again. A lease that lapses is out of the book: nothing is served or fetched for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from mobile_worker.expert_id import ExpertId
from mobile_worker.messages import market as wire
from relay.keys import PeerId

__all__ = ["HeldLease", "LeaseBook", "Want"]

_RENEW_SHARE = 0.75
_REPEAT_SHARE = 0.125  # after a RENEW, it is said once more
_DOUBT_S = 10.0


@dataclass(frozen=True, slots=True)
class Want:
    """An expert that a lease names and memory lacks."""

    lease: bytes
    backbone: PeerId
    manifest_hash: bytes
    expert: ExpertId


@dataclass(slots=True, kw_only=True, eq=False)
class HeldLease:
    """One lease in force."""

    lease: bytes
    backbone: PeerId
    manifest_hash: bytes
    experts: frozenset[ExpertId]
    term_s: float
    expires_at: float  # monotonic seconds, like the next two
    renew_at: float
    repeat_at: float = float("inf")
    held: set[ExpertId] = field(default_factory=set)
    reported: frozenset[ExpertId] = frozenset()

    @property
    def is_in_doubt(self) -> bool:
        """Whether the market may not know it: it is not renewed any more."""
        return self.renew_at == float("inf")


class LeaseBook:
    """All leases in force, by id."""

    def __init__(self) -> None:
        """Start without leases."""
        self._leases: dict[bytes, HeldLease] = {}

    def __len__(self) -> int:
        """Return how many leases are in force."""
        return len(self._leases)

    @property
    def backbones(self) -> frozenset[PeerId]:
        """Whom experts are held for."""
        return frozenset(lease.backbone for lease in self._leases.values())

    def ids(self) -> list[bytes]:
        """Return the ids of the leases in force."""
        return list(self._leases)

    def get(self, lease: bytes) -> HeldLease | None:
        """Return the lease of this id."""
        return self._leases.get(lease)

    def take(self, message: wire.Lease, now: float) -> HeldLease:
        """Take a LEASE in; what it no longer names is no longer held."""
        known = self._leases.get(message.lease)
        lease = HeldLease(
            lease=message.lease,
            backbone=message.backbone,
            manifest_hash=message.manifest_hash,
            experts=frozenset(message.experts),
            term_s=float(message.expires_in_s),
            expires_at=now + message.expires_in_s,
            renew_at=now + message.expires_in_s * _RENEW_SHARE,
        )
        if known is not None and known.manifest_hash == lease.manifest_hash:
            lease.held = known.held & lease.experts
        self._leases[message.lease] = lease
        return lease

    def holds_for(self, backbone: PeerId, manifest_hash: bytes) -> bool:
        """Say whether a lease is in force for this backbone and model."""
        return any(
            lease.backbone == backbone and lease.manifest_hash == manifest_hash
            for lease in self._leases.values()
        )

    def experts_of(self, manifest_hash: bytes) -> frozenset[ExpertId]:
        """Return the experts of a model that any lease names."""
        sets = (
            lease.experts
            for lease in self._leases.values()
            if lease.manifest_hash == manifest_hash
        )
        return frozenset[ExpertId]().union(*sets)

    def manifests(self) -> frozenset[bytes]:
        """Return the models that leases are about."""
        return frozenset(lease.manifest_hash for lease in self._leases.values())

    def wants(self) -> list[Want]:
        """Return what is leased and not held, each expert of a model once."""
        wants: dict[tuple[bytes, ExpertId], Want] = {}
        for lease in self._leases.values():
            for expert in sorted(lease.experts - lease.held):
                key = (lease.manifest_hash, expert)
                want = Want(lease.lease, lease.backbone, lease.manifest_hash, expert)
                wants.setdefault(key, want)
        return list(wants.values())

    def is_wanted(self, manifest_hash: bytes, expert: ExpertId) -> bool:
        """Say whether an expert is still leased."""
        return expert in self.experts_of(manifest_hash)

    def now_held(self, manifest_hash: bytes, expert: ExpertId) -> None:
        """Note that an expert is in memory, verified."""
        for lease in self._leases.values():
            if lease.manifest_hash == manifest_hash and expert in lease.experts:
                lease.held.add(expert)

    def forget_reports(self) -> None:
        """Report everything again: the market may have forgotten."""
        for lease in self._leases.values():
            lease.reported = frozenset()

    def reports(self) -> list[wire.Held]:
        """Return HELD for each lease whose held experts differ from the last report.

        None for a lease in doubt: the LEASE that confirms it is answered by a report.
        """
        reports = []
        for lease in self._leases.values():
            if lease.is_in_doubt:
                continue
            held = frozenset(lease.held)
            if held and held != lease.reported:
                lease.reported = held
                reports.append(
                    wire.Held(lease=lease.lease, experts=tuple(sorted(held)))
                )
        return reports

    def renewals(self, now: float) -> list[wire.Renew]:
        """Return the RENEW messages that are due; sending them extends the terms."""
        due = []
        for lease in self._leases.values():
            if now >= lease.expires_at:
                continue
            if now >= lease.renew_at:
                due.append(wire.Renew(lease=lease.lease))
                lease.expires_at = now + lease.term_s
                lease.renew_at = now + lease.term_s * _RENEW_SHARE
                lease.repeat_at = now + lease.term_s * _REPEAT_SHARE
            elif now >= lease.repeat_at:
                due.append(wire.Renew(lease=lease.lease))
                lease.repeat_at = float("inf")
        return due

    def doubt(self, now: float) -> None:
        """Let every lease lapse soon unless the market confirms it."""
        for lease in self._leases.values():
            lease.expires_at = min(lease.expires_at, now + _DOUBT_S)
            lease.renew_at = lease.repeat_at = float("inf")

    def prolong(self, now: float) -> None:
        """Begin every term anew: renewals cannot be sent, and are due once they can."""
        for lease in self._leases.values():
            lease.expires_at = now + lease.term_s
            lease.renew_at = now

    def release(self, lease_id: bytes, experts: Iterable[ExpertId]) -> None:
        """Take experts out of a lease, or end it if none is named or left."""
        lease = self._leases.get(lease_id)
        if lease is None:
            return
        gone = frozenset(experts) or lease.experts
        lease.experts -= gone
        lease.held -= gone
        lease.reported -= gone
        if not lease.experts:
            del self._leases[lease_id]

    def lapse(self, now: float) -> list[HeldLease]:
        """Drop the leases whose term is over; return them."""
        over = [lease for lease in self._leases.values() if lease.expires_at <= now]
        for lease in over:
            del self._leases[lease.lease]
        return over

    def drop_all(self) -> None:
        """Forget every lease: too much time has passed unseen, or it is the end."""
        self._leases.clear()
