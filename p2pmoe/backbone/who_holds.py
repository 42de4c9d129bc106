"""Who else has a shard: the answer to a GET without bytes.

A worker that is leased an expert would rather have it from another worker than from a
backbone, whose uplink carries everybody's tokens. Named are holders that can be asked
now: hubs first, then laptops; which of them a worker is told first is a hash of both,
so that those who join together do not all go to the same one. Who joined while the
market is away (without_market.py) is told the whole picture when it asks so about the
manifest. Runs on the trio side.
"""

import hashlib
from collections.abc import Callable

from mobile_worker.messages.blobs import MAX_HOLDERS, Blob, Get
from mobile_worker.messages.market import Placement
from mobile_worker.session.records import PeerRecord
from mobile_worker.shards.desk import holders_blob, placement_blob
from mobile_worker.shards.manifest import Manifest, manifest_hash
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.plan import Holder, Tier
from relay.keys import PeerId

__all__ = ["WhoHolds"]


class WhoHolds:
    """Names holders of the shards of one model."""

    def __init__(
        self,
        manifest: Manifest,
        fleet: Fleet,
        record_of: Callable[[PeerId], PeerRecord | None],
        told: Callable[[PeerId], Placement | None],
    ) -> None:
        """Look into `fleet`; `record_of` gives the peers' own signed records.

        `told` gives what somebody is told of the whole placement, if anything.
        """
        self._manifest_hash = manifest_hash(manifest)
        self._told = told
        self._experts = {expert.digest: expert.expert for expert in manifest.experts}
        self._fleet = fleet
        self._record_of = record_of

    def blob(self, asker: PeerId, get: Get) -> Blob:
        """Return the BLOB that names who has the shard, but not its asker."""
        if get.digest == self._manifest_hash:
            placement = self._told(asker)
            if placement is not None:
                return placement_blob(get, placement)
        expert = self._experts.get(get.digest)
        if expert is None:
            return holders_blob(get, ())
        holders = self._fleet.holders(expert.layer).get(expert.index, ())

        def rank(holder: Holder) -> tuple[bool, bytes]:
            key = asker + holder.peer + get.digest
            return holder.tier is not Tier.HUB, hashlib.sha256(key).digest()

        records = (
            self._record_of(holder.peer)
            for holder in sorted(holders, key=rank)[: MAX_HOLDERS + 1]
            if holder.peer != asker
        )
        return holders_blob(get, (r.encoded for r in records if r is not None))
