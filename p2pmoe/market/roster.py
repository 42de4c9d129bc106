"""The workers that the market knows, and the deployments that want their room.

A registry without decisions: who is there, what each accepts, which deployment has
which number. Bounded: 1 million workers, 256 deployments, 4 of them a backbone, 32,768
experts in one and 262,144 in all; what comes above is refused with the reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mobile_worker.shards.errors import ShardMissing
from mobile_worker.shards.manifest import Manifest
from p2pmoe.market.admission import Admitted
from p2pmoe.market.deployments import Listing
from p2pmoe.market.devices import (
    AVAILABILITY_PERMILLE,
    Device,
    ExpertKey,
    domain_of,
)
from p2pmoe.market.errors import NoticeRefused, OfferRefused
from p2pmoe.market.lease import Deployment
from p2pmoe.market.price import SignedPrices
from relay.keys import PeerId

__all__ = ["Roster", "Worker"]

_MAX_WORKERS = 1_000_000
_MAX_DEPLOYMENTS = 256
_MAX_OF_BACKBONE = 4
_MAX_EXPERTS = 32_768  # of a deployment; the largest models known have 23,424
_MAX_EXPERTS_OF_ALL = 262_144


@dataclass(slots=True, kw_only=True, eq=False)
class Worker:
    """One worker that has offered and is there."""

    peer: PeerId
    record: bytes
    models: frozenset[bytes]
    device: Device
    memory_bytes: int
    declared: str  # the failure domain that it names
    is_draining: bool = False


class Roster:
    """Workers by peer, deployments by backbone and manifest, and by number."""

    def __init__(self) -> None:
        self.workers: dict[PeerId, Worker] = {}
        self._listings: dict[Deployment, Listing] = {}
        self._by_number: dict[int, Listing] = {}
        self._next_number = 0
        self._prefixes: dict[PeerId, str] = {}

    @property
    def listings(self) -> Mapping[Deployment, Listing]:
        """All deployments."""
        return self._listings

    def listing_of(self, key: ExpertKey) -> Listing:
        """Return the deployment that the expert belongs to."""
        return self._by_number[key >> 32]

    def read_manifest(self, name: str, offset: int, length: int) -> tuple[int, bytes]:
        """Return (total bytes, bytes from `offset`) of the manifest with this hash.

        Raises:
            ShardMissing: `name`, in hex, is no manifest that is listed.
        """
        for deployment, listing in self._listings.items():
            if deployment.manifest_hash.hex() == name:
                manifest = listing.manifest
                return len(manifest), manifest[offset : offset + length]
        raise ShardMissing(f"no manifest {name[:16]} is listed")

    def enter(self, admitted: Admitted) -> Worker:
        """Add a worker, or bring what it offers up to date.

        A smaller offer than before takes effect only as it gives experts back.

        Raises:
            OfferRefused: the market is full.
        """
        peer = admitted.record.peer_id
        worker = self.workers.get(peer)
        if worker is None:
            if len(self.workers) >= _MAX_WORKERS:
                raise OfferRefused("the market has as many workers as it takes")
            worker = Worker(
                peer=peer,
                record=admitted.record.encoded,
                models=admitted.models,
                device=_device(admitted),
                memory_bytes=admitted.memory_bytes,
                declared=admitted.domain,
            )
            self.workers[peer] = worker
        else:
            worker.record = admitted.record.encoded
            worker.models = admitted.models
            worker.declared = admitted.domain
            worker.device.room_bytes += admitted.memory_bytes - worker.memory_bytes
            worker.memory_bytes = admitted.memory_bytes
        worker.is_draining = False
        for listing in self._listings.values():
            _note_acceptance(worker, listing)
        return worker

    def seen_from(self, peer: PeerId, prefix: str) -> None:
        """Note the network prefix from which a relay sees a peer; "" if it cannot tell.

        Peers that have not offered yet are among them, and those whose leases have
        ended: they may be connected still, and the relay does not say it again. Of more
        than a million the one named first is forgotten.
        """
        self._prefixes.pop(peer, None)
        if prefix:
            self._prefixes[peer] = prefix
        while len(self._prefixes) > _MAX_WORKERS:
            del self._prefixes[next(iter(self._prefixes))]

    def domain_of(self, worker: Worker) -> str:
        """Return the failure domain that counts for a worker."""
        return domain_of(worker.declared, self._prefixes.get(worker.peer, ""))

    def leave(self, peer: PeerId) -> Worker | None:
        """Forget a peer; return the worker that it was, if it was one."""
        return self.workers.pop(peer, None)

    def check_room(self, backbone: PeerId) -> None:
        """Refuse one deployment too many, of this backbone or of all.

        Raises:
            NoticeRefused: as said.
        """
        of_backbone = sum(d.backbone == backbone for d in self._listings)
        if of_backbone >= _MAX_OF_BACKBONE or len(self._listings) >= _MAX_DEPLOYMENTS:
            raise NoticeRefused("the market lists as many manifests as it takes")

    def check_experts(self, n_experts: int) -> None:
        """Refuse a deployment of too many experts.

        Raises:
            NoticeRefused: as said.
        """
        n_others = sum(len(listing.shards) for listing in self._listings.values())
        if n_experts > _MAX_EXPERTS or n_experts + n_others > _MAX_EXPERTS_OF_ALL:
            raise NoticeRefused(f"a manifest of {n_experts} experts finds no room")

    def open(
        self,
        deployment: Deployment,
        parsed: Manifest,
        manifest: bytes,
        prices: SignedPrices,
    ) -> Listing:
        """Add a deployment.

        Raises:
            NoticeRefused: it names more experts than there is room for.
        """
        self.check_experts(len(parsed.experts))
        number, self._next_number = self._next_number, self._next_number + 1
        listing = Listing(deployment, number, parsed, manifest, prices)
        self._listings[deployment] = listing
        self._by_number[number] = listing
        for worker in self.workers.values():
            _note_acceptance(worker, listing)
        return listing

    def close(self, listing: Listing) -> None:
        """Forget a deployment whose leases have ended."""
        del self._listings[listing.deployment]
        del self._by_number[listing.number]


def _device(admitted: Admitted) -> Device:
    return Device(
        name=admitted.record.peer_id,
        device_class=admitted.device_class,
        domain=admitted.domain,
        availability=AVAILABILITY_PERMILLE[admitted.device_class],
        room_bytes=admitted.memory_bytes,
    )


def _note_acceptance(worker: Worker, listing: Listing) -> None:
    accepted = listing.deployment.manifest_hash in worker.models or not worker.models
    worker.device.accept(listing.number, accepted=accepted)
