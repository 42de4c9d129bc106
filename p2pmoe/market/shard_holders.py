"""Who could give a shard that a lease waits for; a pure look into the market's tables.

Only shards that some worker was leased and has not reported yet are looked up, so that
nobody without a lease can make the network move bytes. Hubs come first, then other
holders by chance, the backbone, whose uplink is the scarcest, last.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from mobile_worker.device_class import DeviceClass
from p2pmoe.market.lease import LeaseTable
from p2pmoe.market.roster import Roster
from relay.keys import PeerId

__all__ = ["Sought", "seek_shard"]

_MAX_HOLDERS = 4
_MAX_LOOKED_AT = 4096  # leases; there are more in large networks


@dataclass(frozen=True, slots=True, kw_only=True)
class Sought:
    """A shard that is waited for: its size, and whom to ask, in this order."""

    n_bytes: int
    peers: Sequence[PeerId]


def seek_shard(
    roster: Roster, leases: LeaseTable, digest: bytes, random: Random
) -> Sought | None:
    """Return where a shard can be had; None if no lease waits for it."""
    for deployment, listing in roster.listings.items():
        for shard in listing.by_digest.get(digest, ()):
            is_waited_for, holders = False, []
            of_deployment = leases.of_deployment(deployment)
            for lease, _ in zip(of_deployment, range(_MAX_LOOKED_AT), strict=False):
                if shard.expert in lease.held_since:
                    holders.append(lease.worker)
                elif shard.expert in lease.experts:
                    is_waited_for = True
            if is_waited_for:
                ranked = _ranked(roster, holders, random)
                peers = (*ranked[:_MAX_HOLDERS], deployment.backbone)
                return Sought(n_bytes=shard.n_bytes, peers=peers)
    return None


def _ranked(roster: Roster, holders: Sequence[PeerId], random: Random) -> list[PeerId]:
    """Return hubs and laptops that hold it, by chance; phones give to nobody."""
    classes = {peer: roster.workers[peer].device.device_class for peer in holders}
    shuffled = random.sample(list(holders), len(holders))
    givers = [p for p in shuffled if classes[p] <= DeviceClass.LAPTOP]
    return sorted(givers, key=classes.__getitem__)
