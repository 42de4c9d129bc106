"""What a network says about itself: its id and who its market and ledger are.

The network id is the network's own Ed25519 key, which signs the descriptor. Relays hand
it to every peer unread. A network without a market or ledger names nobody there.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from mobile_worker.errors import RecordError
from mobile_worker.session.signed import open_signed, peer_id_of, seal_signed
from relay.keys import PeerId

__all__ = ["NetworkDescriptor", "Services", "parse_descriptor", "sign_descriptor"]

_DOMAIN = b"p2pmoe network descriptor v1\0"
_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """The network and the two peers that every worker and backbone deals with."""

    network: PeerId
    market: PeerId
    ledger: PeerId


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkDescriptor:
    """A network and its services; `encoded`: the signed bytes, empty until signed."""

    network: PeerId
    market: PeerId | None
    ledger: PeerId | None
    encoded: bytes = field(default=b"", repr=False)

    @property
    def services(self) -> Services | None:
        """The services, None unless the network has both."""
        if self.market is None or self.ledger is None:
            return None
        return Services(network=self.network, market=self.market, ledger=self.ledger)


def sign_descriptor(
    descriptor: NetworkDescriptor, sign: Callable[[bytes], bytes]
) -> NetworkDescriptor:
    """Return the descriptor with its signed bytes; `sign` uses the network's key."""
    values = (
        _VERSION,
        descriptor.network,
        descriptor.market or b"",
        descriptor.ledger or b"",
    )
    return replace(descriptor, encoded=seal_signed(_DOMAIN, values, sign))


def parse_descriptor(encoded: bytes) -> NetworkDescriptor:
    """Return the verified descriptor of signed bytes.

    Whether the network is the one that was meant is for the caller to compare.

    Raises:
        RecordError: malformed, or not signed by its own network.
    """
    values = open_signed(_DOMAIN, encoded, signer=1)
    if len(values) != 4 or values[0] != _VERSION:
        raise RecordError(f"a descriptor with {len(values)} values")
    return NetworkDescriptor(
        network=peer_id_of(values[1]),
        market=peer_id_of(values[2]) if values[2] != b"" else None,
        ledger=peer_id_of(values[3]) if values[3] != b"" else None,
        encoded=encoded,
    )
