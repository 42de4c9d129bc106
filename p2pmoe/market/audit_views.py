"""What the book's tables say of holders, as checks need it: views, no decisions.

A model is all deployments of one manifest; a holder counts while its lease is live. Of
a model with more than 20,000 leases a part is looked at each time, by chance. The
domain of a key is where its device is now, else where it was last.
"""

from collections.abc import Iterator, Mapping, Sequence
from random import Random

from mobile_worker.expert_id import ExpertId
from mobile_worker.standing import StandingState
from p2pmoe.market.canaries import Listed
from p2pmoe.market.canary_plan import HolderView
from p2pmoe.market.deployments import Listing
from p2pmoe.market.judging import Voice
from p2pmoe.market.lease import Lease, LeaseState, LeaseTable
from p2pmoe.market.referee import Candidate, Candidates
from p2pmoe.market.roster import Roster
from p2pmoe.market.standing import Standings
from relay.keys import PeerId

__all__ = ["AuditViews"]

_MAX_LEASES = 20_000


class AuditViews:
    """Looks holders, backbones and domains up."""

    def __init__(
        self, roster: Roster, leases: LeaseTable, standings: Standings, random: Random
    ) -> None:
        """Look into these tables; nothing is kept."""
        self._roster = roster
        self._leases = leases
        self._standings = standings
        self._random = random

    def domain(self, peer: PeerId) -> str:
        """Return the failure domain of a key, "" if none is known."""
        worker = self._roster.workers.get(peer)
        if worker is not None:
            return worker.device.domain
        return self._standings.of(peer).domain

    def is_known(self, peer: PeerId) -> bool:
        """Tell whether a key is past probation, and not kicked."""
        return self._standings.state(peer) is StandingState.GOOD

    def listed(self, manifest_hash: bytes) -> Listed | None:
        """Return a model as it stands now; None if no backbone lists it."""
        listings = self._listings(manifest_hash)
        if not listings:
            return None
        held: dict[PeerId, set[ExpertId]] = {}
        for lease in self._live(listings):
            held.setdefault(lease.worker, set()).update(lease.held_since)
        holders = [
            HolderView(
                peer=peer,
                domain=self.domain(peer),
                is_known=self.is_known(peer),
                experts=experts,
            )
            for peer, experts in held.items()
        ]
        backbones = {each.deployment.backbone: each.has for each in listings}
        return Listed(holders=holders, backbones=backbones)

    def voices(self, said: Mapping[PeerId, bytes]) -> list[Voice]:
        """Return what holders said, with what is known of each."""
        return [
            Voice(
                peer=peer,
                domain=self.domain(peer),
                said=word,
                is_known=self.is_known(peer),
            )
            for peer, word in said.items()
        ]

    def candidates(self) -> Candidates:
        """Return where a referee looks for who may compute a serving again."""
        return Candidates(
            holders=self._holders,
            backbones=self._backbones,
            is_backbone=self.is_backbone,
            domain=self.domain,
        )

    def is_backbone(self, peer: PeerId) -> bool:
        """Tell whether a peer lists any model."""
        return any(each.backbone == peer for each in self._roster.listings)

    def _holders(self, manifest_hash: bytes, expert: ExpertId) -> Sequence[Candidate]:
        return [
            Candidate(
                peer=lease.worker,
                domain=self.domain(lease.worker),
                is_known=self.is_known(lease.worker),
            )
            for lease in self._live(self._listings(manifest_hash))
            if expert in lease.held_since
        ]

    def _backbones(self, manifest_hash: bytes, expert: ExpertId) -> Sequence[PeerId]:
        return [
            each.deployment.backbone
            for each in self._listings(manifest_hash)
            if each.has(expert)
        ]

    def _listings(self, manifest_hash: bytes) -> list[Listing]:
        return [
            listing
            for deployment, listing in self._roster.listings.items()
            if deployment.manifest_hash == manifest_hash
        ]

    def _live(self, listings: Sequence[Listing]) -> Iterator[Lease]:
        for listing in listings:
            leases = self._leases.of_deployment(listing.deployment)
            if len(leases) > _MAX_LEASES:
                first = self._random.randrange(len(leases))
                leases = (leases + leases)[first : first + _MAX_LEASES]
            for lease in leases:
                if lease.state is LeaseState.LIVE:
                    yield lease
