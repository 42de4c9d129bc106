"""The network's own key and what it signs: the descriptor and the members' token.

The key lies in the operator's folder (mode 0600) and never leaves it. It signs the
descriptor, by which every peer learns who market and ledger are, and tokens, by which
relays let members in. The token of an invite admits any peer id in the rate class of a
laptop or a hub; the services' own tokens are bound to their ids and roles.
"""

from pathlib import Path

from mobile_worker.session.descriptor import NetworkDescriptor, sign_descriptor
from relay.keys import PeerId, SigningKey, load_or_create_key
from relay.tokens import NetworkToken, RateClass, Role, encode_token

__all__ = ["Network"]


class Network:
    """A network whose key we hold."""

    def __init__(self, key: SigningKey) -> None:
        self._key = key

    @classmethod
    def load_or_create(cls, key_file: Path) -> "Network":
        """Read the network's key file, making it if needed.

        Raises:
            KeyFileError: the file holds no key, or cannot be read or written.
        """
        return cls(load_or_create_key(key_file))

    @property
    def network_id(self) -> PeerId:
        """The network's public key, its name everywhere."""
        return self._key.peer_id

    def descriptor(
        self, market: PeerId | None, ledger: PeerId | None
    ) -> NetworkDescriptor:
        """Return the signed descriptor that names the network's services."""
        descriptor = NetworkDescriptor(
            network=self.network_id, market=market, ledger=ledger
        )
        return sign_descriptor(descriptor, self._key.sign)

    def member_token(self) -> bytes:
        """Return the token of an invite: any peer, any role, no end."""
        token = NetworkToken(network=self.network_id, rate_class=RateClass.HUB)
        return encode_token(token, self._key.sign)

    def service_token(self, service: PeerId, role: Role) -> bytes:
        """Return the token of one service, bound to its id and role."""
        token = NetworkToken(
            network=self.network_id,
            peer_id=service,
            role=role,
            rate_class=RateClass.HUB,
        )
        return encode_token(token, self._key.sign)
