"""What this node says about itself: its record, and the network it is in."""

import os
from dataclasses import replace

from mobile_worker.clock import Clock
from mobile_worker.errors import RecordError
from mobile_worker.links.node import NodeSettings
from mobile_worker.session.descriptor import NetworkDescriptor, parse_descriptor
from mobile_worker.session.handshake import OwnSide
from mobile_worker.session.packets import INSTANCE_BYTES
from mobile_worker.session.records import MAX_ADDRESSES, PeerRecord, sign_record
from relay.greetings import Welcome

__all__ = ["NO_NETWORK", "Presence"]

NO_NETWORK = bytes(32)  # the network id of nodes that know no network
_RECORD_LIFE_US = 30 * 86_400 * 1_000_000
_FIRST_RELAYS = 2  # home relays in the record, before we know where we are


class Presence:
    """Our signed record, kept up to date, and what the relay told of the network."""

    def __init__(self, settings: NodeSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.descriptor: NetworkDescriptor | None = None
        self.observed_address = ""
        self.own = OwnSide(
            identity=settings.identity,
            network=settings.network or NO_NETWORK,
            instance=os.urandom(INSTANCE_BYTES),
            record=lambda: self.record.encoded,
            random_bytes=os.urandom,
        )
        relays = tuple(str(endpoint) for endpoint in settings.endpoints)
        self.record = self._sign(
            PeerRecord(
                peer_id=settings.identity.peer_id,
                static_key=settings.identity.static_key,
                role=settings.role,
                relays=relays[:_FIRST_RELAYS],
                direct_addresses=settings.advertise,
                capabilities=settings.capabilities,
                self_test=settings.self_test,
                not_after_us=0,
                sequence=0,
            )
        )

    def set_addresses(self, addresses: tuple[str, ...]) -> None:
        """Put these direct addresses into the record, unless others are configured."""
        wanted = self._settings.advertise or addresses
        if wanted != self.record.direct_addresses:
            self.record = self._sign(replace(self.record, direct_addresses=wanted))

    def set_relays(self, names: tuple[str, ...]) -> bool:
        """Name these relays as our homes; tell whether that is anything new."""
        wanted = names[:MAX_ADDRESSES]
        if not wanted or set(wanted) == set(self.record.relays):
            return False
        self.record = self._sign(replace(self.record, relays=wanted))
        return True

    def take_welcome(self, welcome: Welcome) -> None:
        """Learn the network from the relay.

        Raises:
            RecordError: the descriptor is not valid, or of another network than ours.
        """
        self.observed_address = welcome.observed_address
        if not welcome.descriptor:
            return
        descriptor = parse_descriptor(welcome.descriptor)
        ours = self._settings.network or self.own.network
        if ours not in (NO_NETWORK, descriptor.network):
            raise RecordError(
                f"the relay is of network {descriptor.network[:4].hex()}, "
                f"not {ours[:4].hex()}",
                advice="Use a relay of your own network",
            )
        self.descriptor = descriptor
        self.own.network = descriptor.network

    def _sign(self, record: PeerRecord) -> PeerRecord:
        now = self._clock.wall_us()
        dated = replace(
            record,
            not_after_us=now + _RECORD_LIFE_US,
            sequence=max(now, record.sequence + 1),
        )
        return sign_record(dated, self._settings.identity.sign)
