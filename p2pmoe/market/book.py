"""The market's decisions: what happened goes in, what is to be sent comes out.

Every method takes what a peer said, or the time, and returns messages to send; nothing
here awaits or reads a clock (`now` is monotonic seconds). The rules:

- An expert counts and is published only once its worker has reported it HELD.
- New offers, losses and reports are answered by one assignment for all that came within
  a quarter of a second, so that those who join together share the work.
- A placement is the whole picture. It follows 0.1 s after a gain and at once a loss,
  within 2 s where it has thousands of holders.
- A worker that leaves, is lost or does not renew lapses as a whole; what it held
  goes to others. If it offers again it first gets back the shards that it had.
- After our own relay was away, peers that seem gone have 10 s to show up again.
- A deployment whose backbone has been silent for 10 minutes is given up.

Source: design/06; faults B15, B28, B32.
"""

from collections.abc import Iterable, Sequence

from mobile_worker.messages import market as wire
from mobile_worker.messages.envelope import MessageType
from mobile_worker.session.records import PeerRecord
from mobile_worker.shards.manifest import Manifest
from p2pmoe.market.admission import Admitted
from p2pmoe.market.assignment import Assignment
from p2pmoe.market.auditing import Auditing, AuditingParts
from p2pmoe.market.deployments import Listing, content_name, key_of
from p2pmoe.market.errors import NoticeRefused
from p2pmoe.market.granting import Granting
from p2pmoe.market.lease import Deployment, Lease, LeaseEvent, LeaseState, LeaseTable
from p2pmoe.market.market_settings import MarketSettings
from p2pmoe.market.membership import Membership
from p2pmoe.market.moving import Moving
from p2pmoe.market.outgoing import Outgoing, Send
from p2pmoe.market.pricing.desk import DeskParts, Judgement, PriceDesk
from p2pmoe.market.remembered import Remembered
from p2pmoe.market.roster import Roster, Worker
from p2pmoe.market.timetable import Timetable
from relay.keys import PeerId

__all__ = ["Book", "MarketSettings"]

_BACKBONE_SILENCE_S = 600.0
_GRACE_S = 10.0
_TOLD_AGAIN_S = 45.0  # new prices: with each renewal, should the first have been lost


class Book:
    """All that the market knows, and what follows from it."""

    def __init__(self, settings: MarketSettings, remembered: Remembered) -> None:
        self.remembered = remembered
        self.roster = Roster()
        self.leases = LeaseTable()
        self.assignment = Assignment(settings.tie_salt)
        self.times = Timetable()
        self._granting = Granting(self.assignment, self.leases, self.roster, remembered)
        self._moving = Moving(self.assignment, self.leases, self.roster)
        self._members = Membership(
            self.assignment, self.leases, self.roster, self._moving, remembered
        )
        self.prices = PriceDesk(
            DeskParts(
                network=settings.network,
                sign=settings.sign,
                salt=settings.tie_salt,
                settings=settings.prices,
                roster=self.roster,
                leases=self.leases,
            ),
            settings.models,
        )
        self.auditing = Auditing(
            AuditingParts(
                roster=self.roster,
                leases=self.leases,
                remembered=remembered,
                random=settings.random,
                settings=settings.canaries,
            )
        )
        self.prices.judgement = Judgement(
            counts=self.auditing.counts, proven=self.auditing.is_proven
        )
        self._outgoing = Outgoing(self.roster, self.leases, settings.first_serial)
        self._is_away = False
        self._grace_until = float("-inf")

    # What workers say.

    def offer(self, admitted: Admitted, now: float) -> list[Send]:
        """A worker offers: it gets its earlier shards back at once, more soon.

        Raises:
            OfferRefused: the market is full.
        """
        known = self.roster.workers.get(admitted.record.peer_id)
        record = known.record if known is not None else None
        worker = self.roster.enter(admitted)
        self.heard(worker.peer)
        for lease in self.leases.of_worker(worker.peer):
            if lease.state is LeaseState.DRAINING:  # it has thought better of leaving
                self.leases.end(lease, LeaseEvent.RELEASE)
            elif worker.record != record:  # it may be reached elsewhere now
                self.times.place_soon(lease.deployment, now)
        self._members.came(worker, now)
        told, may_stay = self.auditing.entered(worker, now)
        if not may_stay:
            return [*self.revoke_worker(worker.peer, "not taken now", now), *told]
        self._granting.give_back(worker, now)
        self.times.assign_soon(now)
        leases = self.leases.of_worker(worker.peer)
        return [*told, *(self._told(each, now) for each in leases)]

    def held(self, peer: PeerId, held: wire.Held, now: float) -> list[Send]:
        """A worker has experts ready: publish them, finish moves that waited for them.

        Raises:
            UnknownLease: see `LeaseTable.get`.
        """
        lease = self.leases.get(held.lease, peer)
        if self.leases.held(lease, held.experts, now):
            self.times.place_soon(lease.deployment, now)
            self._members.note_holdings(peer)
            self.auditing.held(lease, now)
        listing = self.roster.listings[lease.deployment]
        keys = [key_of(listing.number, expert) for expert in lease.live]
        changed = self._moving.finish(self.roster.workers[peer], keys)
        for each in changed:
            self.times.place_soon(each.deployment, now)
        return [self._told(each, now) for each in changed]

    def renew(self, peer: PeerId, lease_id: bytes, now: float) -> list[Send]:
        """A worker is still there; what it may not know yet it is told once more.

        Raises:
            UnknownLease: see `LeaseTable.get`.
        """
        self.leases.renew(self.leases.get(lease_id, peer), now)
        self._restate(self.roster.workers[peer], now)
        return [
            self._told(lease, now)
            for lease in self.leases.of_worker(peer)
            if lease.experts.keys() != lease.held_since.keys()
            or now < self.roster.listings[lease.deployment].priced_at + _TOLD_AGAIN_S
        ]

    def release(self, peer: PeerId, release: wire.Release, now: float) -> list[Send]:
        """A worker gives experts back (all if it names none): no penalty.

        They are not offered to it again, and the room that they took is not used for
        others: it has told us that it cannot hold as much as it thought.

        Raises:
            UnknownLease: see `LeaseTable.get`.
        """
        lease = self.leases.get(release.lease, peer)
        self._members.give_back(lease, release.experts or tuple(lease.experts))
        self.times.assign_soon(now)
        return self._after_loss([lease.deployment], now)

    def draining(self, peer: PeerId, now: float) -> list[Send]:
        """A worker is leaving: nothing new for it, and others take over."""
        worker = self.roster.workers.get(peer)
        if worker is None or worker.is_draining:
            return []
        ended = self._members.drain(worker, now)
        self.times.assign_soon(now)
        return self._after_loss(ended, now)

    # What backbones say.

    def lists(self, backbone: PeerId, manifest: bytes) -> bool:
        """Say whether this very manifest of a backbone is listed already."""
        return Deployment(backbone, content_name(manifest)) in self.roster.listings

    def notice(
        self, record: PeerRecord, manifest: bytes, parsed: Manifest | None, now: float
    ) -> list[Send]:
        """A backbone lists its model, anew or again; `parsed` is needed if anew.

        Raises:
            NoticeRefused: the market is full.
        """
        deployment = Deployment(record.peer_id, content_name(manifest))
        listing = self.roster.listings.get(deployment)
        if listing is None:
            if parsed is None:
                raise NoticeRefused("the manifest is listed no more: send it again")
            self.roster.check_room(record.peer_id)
            self.roster.check_experts(len(parsed.experts))
            experts = [each.expert.packed for each in parsed.experts]
            prices = self.prices.open(deployment.manifest_hash, experts)
            listing = self.roster.open(deployment, parsed, manifest, prices)
            self.assignment.want(listing.wanted(now))
            self.auditing.listed(listing, now)
        renewed: Sequence[Lease] = ()
        if listing.record != record.encoded:
            listing.record = record.encoded
            renewed = self.leases.of_deployment(listing.deployment)
        listing.heard_at = now
        self.times.silent_at(listing.deployment, now + _BACKBONE_SILENCE_S)
        self.times.assign_soon(now)
        return [
            *self._placements([listing.deployment]),
            *(self._told(lease, now) for lease in renewed),
        ]

    def demand(self, backbone: PeerId, demand: wire.Demand, now: float) -> list[Send]:
        """A backbone reports use and what it has at hand."""
        listing = self.roster.listings.get(Deployment(backbone, demand.manifest_hash))
        if listing is None:
            reason = "unknown manifest: send it again"
            what = int(MessageType.DEMAND)
            return [Send(backbone, wire.Refused(what=what, reason=reason))]
        listing.heard_at = now
        if listing.report(demand, now):
            self.assignment.want(listing.wanted(now))
            self.times.assign_soon(now)
        return []

    # What the network says.

    def heard(self, peer: PeerId) -> None:
        """A peer spoke: it is not gone, whatever the relay thought."""
        self.times.suspects.pop(peer, None)

    def relay_is_away(self) -> None:
        """Our own relay link is down: nobody can reach us, so nobody lapses."""
        self._is_away = True

    def relay_is_back(self, now: float) -> None:
        """Our own relay link is up again: others may need some seconds more."""
        self._is_away = False
        self._grace_until = now + _GRACE_S
        self.prices.unsettle()
        self.leases.renew_all(now)
        for listing in self.roster.listings.values():
            listing.heard_at = now

    def gone(self, peer: PeerId, now: float) -> list[Send]:
        """A peer seems gone; believed at once, but not just after we were away."""
        if now < self._grace_until:
            self.times.suspects[peer] = self._grace_until
            return []
        return self.lost(peer, now)

    def lost(self, peer: PeerId, now: float) -> list[Send]:
        """A worker is gone: its leases lapse, placements follow at once."""
        return self._end(peer, LeaseEvent.LOST, now)

    def seen_from(self, peer: PeerId, prefix: str, now: float) -> None:
        """A relay says from which network prefix it sees a peer; "" if it cannot."""
        self.roster.seen_from(peer, prefix)
        if (worker := self.roster.workers.get(peer)) is not None:
            self._restate(worker, now)
            self.auditing.moved(worker, now)

    # What the market itself decides of a worker.

    def revoke_worker(self, peer: PeerId, reason: str, now: float) -> list[Send]:
        """Take every lease from a worker, and tell it why."""
        releases = [
            Send(peer, wire.Release(lease=each.lease_id, experts=(), reason=reason))
            for each in self.leases.of_worker(peer)
        ]
        return [*releases, *self._end(peer, LeaseEvent.REVOKE, now)]

    # What time says.

    def tick(self, now: float) -> list[Send]:
        """Do what is due: lapses, assignment, moves, placements."""
        sends: list[Send] = []
        for peer in self.times.take_suspects(now):
            sends += self.lost(peer, now)
        for lease in () if self._is_away else self.leases.overdue(now):
            if lease.is_open:  # not ended just before, with its worker
                sends += self.lost(lease.worker, now)
        for deployment in self.times.take_silent(now):
            sends += self._check_silence(deployment, now)
        if self.times.take_assignment(now):
            sends += [self._told(lease, now) for lease in self._granting.fill(now)]
            self.times.move_soon(now)
        if self.times.take_moves(now):
            sends += self._move(now)
        sends += self._audit(now)
        return sends + self._placements(self.times.take_placements(now))

    def adopt_prices(self, now: float) -> list[Send]:
        """Tell the prices that are new: workers first, who are then asked at them."""
        adopted = self.prices.adopt()
        told: list[Send] = []
        deployments: list[Deployment] = []
        for deployment, listing in self.roster.listings.items():
            prices = adopted.get(deployment.manifest_hash)
            if prices is not None:
                listing.prices, listing.priced_at = prices, now
                deployments.append(deployment)
                leases = self.leases.of_deployment(deployment)
                told += [self._told(lease, now) for lease in leases]
        return [*told, *self._placements(deployments)]

    def next_due(self) -> float | None:
        """Return when `tick` has something to do, None if nothing is planned."""
        lapse_at = None if self._is_away else self.leases.next_end()
        moments = (self.times.next_due(), lapse_at, self.auditing.next_due())
        return min((m for m in moments if m is not None), default=None)

    # How it is done.

    def _restate(self, worker: Worker, now: float) -> None:
        if self._members.restate(worker, now):
            self.times.assign_soon(now)

    def _end(self, peer: PeerId, event: LeaseEvent, now: float) -> list[Send]:
        self.times.suspects.pop(peer, None)
        self._granting.forget(peer)
        ended = self._members.end(peer, event, now)
        if ended:
            self.times.assign_soon(now)
        return [*self._after_loss(ended, now), *self.auditing.left(peer, now)]

    def _audit(self, now: float) -> list[Send]:
        """Check workers, and take leases from those that were found wrong."""
        sends = self.auditing.tick(now)
        for worker in self.auditing.take_risen():
            self._granting.ask(worker.peer)
            self.times.assign_soon(now)
        for kick in self.auditing.take_kicks():
            if kick.lease is None:
                sends += self.revoke_worker(kick.peer, kick.reason, now)
                sends.append(self.auditing.told(kick.peer, now))
            elif kick.lease.is_open:
                sends.append(self._revoke(kick.lease, kick.reason))
                sends += self._placements([kick.lease.deployment])
                self.times.assign_soon(now)
        return sends

    def _revoke(self, lease: Lease, reason: str) -> Send:
        self._members.revoke(lease)
        release = wire.Release(lease=lease.lease_id, experts=(), reason=reason)
        return Send(lease.worker, release)

    def _told(self, lease: Lease, now: float) -> Send:
        """Return the message of a lease; its term begins anew while we are away."""
        if self._is_away:
            self.leases.renew(lease, now)
        return self._outgoing.lease(lease, now)

    def _move(self, now: float) -> list[Send]:
        changed: dict[bytes, Lease] = {}
        touched: set[Deployment] = set()
        for worker, move in self._moving.begin(now):
            for lease in self._granting.grant(worker.peer, [move.take], now):
                changed[lease.lease_id] = lease
            if not move.has_room:
                listing = self.roster.listing_of(move.drop)
                dropped = self.leases.find(worker.peer, listing.deployment)
                if dropped is not None:
                    changed[dropped.lease_id] = dropped
                touched.add(listing.deployment)
        if self.roster.workers and self.roster.listings:
            self.times.move_soon(now)
        return [
            *self._placements(touched),
            *(self._told(lease, now) for lease in changed.values()),
        ]

    def _check_silence(self, deployment: Deployment, now: float) -> list[Send]:
        listing = self.roster.listings.get(deployment)
        if listing is None:
            return []
        silent_at = listing.heard_at + _BACKBONE_SILENCE_S
        if self._is_away:
            silent_at = now + _BACKBONE_SILENCE_S
        if now < silent_at:
            self.times.silent_at(deployment, silent_at)
            return []
        return self._give_up(listing, now)

    def _give_up(self, listing: Listing, now: float) -> list[Send]:
        """Revoke every lease of a deployment and forget it."""
        sends = [
            self._revoke(lease, "the backbone has gone silent")
            for lease in self.leases.of_deployment(listing.deployment)
        ]
        self.assignment.forget([shard.key for shard in listing.shards])
        self.roster.close(listing)
        self.times.assign_soon(now)
        return sends

    def _after_loss(self, lost: Iterable[Deployment], now: float) -> list[Send]:
        return self._placements(self.times.after_loss(lost, now, self.leases))

    def _placements(self, deployments: Iterable[Deployment]) -> list[Send]:
        listed = [d for d in dict.fromkeys(deployments) if d in self.roster.listings]
        for deployment in listed:
            self.times.placed(deployment)
        return [self._outgoing.placement(deployment) for deployment in listed]
