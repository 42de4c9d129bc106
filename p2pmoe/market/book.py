"""The market's decisions: what happened goes in, what is to be sent comes out.

Every method takes what a peer said, or the time, and returns messages to send; nothing
here awaits or reads a clock (`now` is monotonic seconds). The rules:

- An expert counts and is published only once its worker has reported it HELD.
- New offers, losses and reports are answered by one assignment for all that came within
  a quarter of a second, so that those who join together share the work.
- A placement is the whole picture. It follows 0.1 s after a gain and at once a loss.
- A worker that leaves, is lost or does not renew lapses as a whole; what it held
  goes to others. If it offers again it first gets back the shards that it had.
- After our own relay was away, peers that seem gone have 10 s to show up again.
- A deployment whose backbone has been silent for 10 minutes is given up.

Source: design/06; faults B15, B28, B32.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mobile_worker.messages import market as wire
from mobile_worker.messages.envelope import MessageType
from mobile_worker.session.records import PeerRecord
from mobile_worker.shards.manifest import Manifest
from p2pmoe.market.admission import Admitted
from p2pmoe.market.assignment import Assignment
from p2pmoe.market.deployments import Listing, content_name, key_of
from p2pmoe.market.devices import ExpertKey
from p2pmoe.market.errors import NoticeRefused
from p2pmoe.market.granting import Granting
from p2pmoe.market.lease import Deployment, Lease, LeaseEvent, LeaseState, LeaseTable
from p2pmoe.market.moving import Moving
from p2pmoe.market.outgoing import Outgoing, Send
from p2pmoe.market.price import DEFAULT_BASE_UC, SignedPrices, flat_prices
from p2pmoe.market.remembered import Remembered
from p2pmoe.market.roster import Roster
from p2pmoe.market.timetable import Timetable
from relay.keys import PeerId

__all__ = ["Book", "MarketSettings"]

_BACKBONE_SILENCE_S = 600.0
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketSettings:
    """What a market is told at its start.

    tie_salt: up to 64 random bytes. first_serial: placements count from here; above
    every serial of an earlier run. sign: by the market's own key.
    """

    network: bytes
    sign: Callable[[bytes], bytes]
    tie_salt: bytes
    first_serial: int
    base_uc: int = DEFAULT_BASE_UC


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
        self._settings = settings
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
        self._granting.give_back(worker, now)
        self.times.assign_soon(now)
        return [self._told(each, now) for each in self.leases.of_worker(worker.peer)]

    def held(self, peer: PeerId, held: wire.Held, now: float) -> list[Send]:
        """A worker has experts ready: publish them, finish moves that waited for them.

        Raises:
            UnknownLease: see `LeaseTable.get`.
        """
        lease = self.leases.get(held.lease, peer)
        if self.leases.held(lease, held.experts, now):
            self.times.place_soon(lease.deployment, now)
            self._remember(peer)
        listing = self.roster.listings[lease.deployment]
        keys = [key_of(listing.number, expert) for expert in lease.live]
        changed = self._moving.finish(self.roster.workers[peer], keys)
        for each in changed:
            self.times.place_soon(each.deployment, now)
        return [self._told(each, now) for each in changed]

    def renew(self, peer: PeerId, lease_id: bytes, now: float) -> list[Send]:
        """A worker is still there; what it does not hold yet it is told once more.

        Raises:
            UnknownLease: see `LeaseTable.get`.
        """
        self.leases.renew(self.leases.get(lease_id, peer), now)
        return [
            self._told(lease, now)
            for lease in self.leases.of_worker(peer)
            if lease.experts.keys() != lease.held_since.keys()
        ]

    def release(self, peer: PeerId, release: wire.Release, now: float) -> list[Send]:
        """A worker gives experts back (all if it names none): no penalty.

        They are not offered to it again, and the room that they took is not used for
        others: it has told us that it cannot hold as much as it thought.

        Raises:
            UnknownLease: see `LeaseTable.get`.
        """
        lease = self.leases.get(release.lease, peer)
        listing = self.roster.listings[lease.deployment]
        device = self.roster.workers[peer].device
        given_back = lease.experts.keys() & (release.experts or tuple(lease.experts))
        for expert in sorted(given_back):
            key = key_of(listing.number, expert)
            device.declined.add(key)
            n_bytes = device.held.get(key, 0)
            self._let_go(device.held, peer, key)
            device.room_bytes -= n_bytes
        self.leases.withdraw(lease, given_back)
        if not lease.experts:
            self.leases.end(lease, LeaseEvent.RELEASE)
        self._remember(peer)
        self.times.assign_soon(now)
        return self._placements([lease.deployment])

    def draining(self, peer: PeerId, now: float) -> list[Send]:
        """A worker is leaving: nothing new for it, and others take over."""
        worker = self.roster.workers.get(peer)
        if worker is None or worker.is_draining:
            return []
        worker.is_draining = True
        leases = self.leases.of_worker(peer)
        for lease in leases:
            self.leases.drain(lease)
        self._moving.forget(peer)
        self.assignment.release_all(worker.device)
        self.times.assign_soon(now)
        return self._placements([lease.deployment for lease in leases])

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
            prices = self._prices(deployment.manifest_hash)
            listing = self.roster.open(deployment, parsed, manifest, prices)
            self.assignment.want(listing.wanted(now))
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
        self.times.suspects.pop(peer, None)
        worker = self.roster.workers.pop(peer, None)
        if worker is None:
            return []
        self._moving.forget(peer)
        self.assignment.release_all(worker.device)
        leases = self.leases.of_worker(peer)
        for lease in leases:
            self.leases.end(lease, LeaseEvent.LOST)
        self.times.assign_soon(now)
        return self._placements([lease.deployment for lease in leases])

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
        return sends + self._placements(self.times.take_placements(now))

    def next_due(self) -> float | None:
        """Return when `tick` has something to do, None if nothing is planned."""
        lapse_at = None if self._is_away else self.leases.next_end()
        moments = (self.times.next_due(), lapse_at)
        return min((m for m in moments if m is not None), default=None)

    # How it is done.

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
        sends = []
        for lease in self.leases.of_deployment(listing.deployment):
            device = self.roster.workers[lease.worker].device
            for expert in lease.experts:
                key = key_of(listing.number, expert)
                self._let_go(device.held, lease.worker, key)
            self.leases.end(lease, LeaseEvent.REVOKE)
            message = wire.Release(
                lease=lease.lease_id, experts=(), reason="the backbone has gone silent"
            )
            sends.append(Send(lease.worker, message))
        self.assignment.forget([shard.key for shard in listing.shards])
        self.roster.close(listing)
        self.times.assign_soon(now)
        return sends

    def _let_go(self, held: dict[ExpertKey, int], peer: PeerId, key: ExpertKey) -> None:
        self._moving.cancel(peer, key)
        if key in held:
            self.assignment.release(self.roster.workers[peer].device, key)

    def _remember(self, peer: PeerId) -> None:
        digests: list[bytes] = []
        for lease in self.leases.of_worker(peer):
            listing = self.roster.listings[lease.deployment]
            digests += listing.digests_of(lease.held_since)
        self.remembered.note_holdings(peer, digests)

    def _prices(self, manifest_hash: bytes) -> SignedPrices:
        settings = self._settings
        epoch = self.remembered.price_epoch(manifest_hash, settings.base_uc)
        return flat_prices(
            settings.network,
            manifest_hash,
            epoch=epoch,
            base_uc=settings.base_uc,
            sign=settings.sign,
        )

    def _placements(self, deployments: Iterable[Deployment]) -> list[Send]:
        listed = [d for d in dict.fromkeys(deployments) if d in self.roster.listings]
        for deployment in listed:
            self.times.placed(deployment)
        return [self._outgoing.placement(deployment) for deployment in listed]
