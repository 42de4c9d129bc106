"""What the market says: leases to workers, placements to backbones.

A lease names its full set of experts, a placement the whole picture of one deployment
with a serial number that only grows; either replaces the one before it, so that a lost
message is made good by the next. Pure.
"""

from dataclasses import dataclass

from mobile_worker.messages import market as wire
from mobile_worker.messages.codec import Message
from p2pmoe.market.lease import Deployment, Lease, LeaseTable
from p2pmoe.market.roster import Roster
from relay.keys import PeerId

__all__ = ["Outgoing", "Send"]


@dataclass(frozen=True, slots=True)
class Send:
    """One message to one peer."""

    peer: PeerId
    message: Message


class Outgoing:
    """Builds messages from the market's tables; counts the placements."""

    def __init__(self, roster: Roster, leases: LeaseTable, first_serial: int) -> None:
        self._roster = roster
        self._leases = leases
        self._serial = first_serial

    def lease(self, lease: Lease, now: float) -> Send:
        """Return the message that grants or changes a lease.

        It tells what is left of the term: a lease that grows does not begin anew, so
        the worker must renew before the end that it was told first.
        """
        listing = self._roster.listings[lease.deployment]
        message = wire.Lease(
            lease=lease.lease_id,
            backbone=lease.deployment.backbone,
            backbone_record=listing.record,
            manifest_hash=lease.deployment.manifest_hash,
            experts=tuple(sorted(lease.experts)),
            price_table=listing.prices.table,
            price_signature=listing.prices.signature,
            expires_in_s=max(1, int(lease.expires_at - now)),
        )
        return Send(lease.worker, message)

    def placement(self, deployment: Deployment) -> Send:
        """Return the whole picture of a deployment, for its backbone."""
        listing = self._roster.listings[deployment]
        self._serial += 1
        message = wire.Placement(
            manifest_hash=deployment.manifest_hash,
            serial=self._serial,
            price_table=listing.prices.table,
            price_signature=listing.prices.signature,
            holders=tuple(
                self._holder(lease)
                for lease in self._leases.of_deployment(deployment)
                if lease.live
            ),
        )
        return Send(deployment.backbone, message)

    def _holder(self, lease: Lease) -> wire.Holder:
        worker = self._roster.workers[lease.worker]
        return wire.Holder(
            record=worker.record,
            device_class=int(worker.device.device_class),
            experts=lease.live,
        )
