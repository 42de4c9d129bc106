"""The network's own key and what it signs: descriptor, tokens, map, revocations.

The key lies in the operator's folder (mode 0600) and never leaves it. It signs the
descriptor, by which every peer learns who market and ledger are, tokens, by which
relays let members in, the relay map, and what is revoked. An invite's token says by its
`Terms` whom it admits; the services' own tokens are bound to their ids and roles.
"""

import secrets
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from mobile_worker.session.descriptor import NetworkDescriptor, sign_descriptor
from p2pmoe.network.errors import NetworkMissing
from relay.keys import PeerId, SigningKey, load_key, load_or_create_key
from relay.tokens import NetworkToken, RateClass, Role, encode_token

__all__ = ["Network", "Terms"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a token grants: to whom (None: anybody), as what, how fast, until when.

    not_after_us: wall time, 0 for no end. serial: tells tokens of equal terms apart.
    """

    role: Role = Role.ANY
    rate_class: RateClass = RateClass.HUB
    not_after_us: int = 0
    peer_id: PeerId | None = None
    serial: int = 0

    def numbered(self) -> Self:
        """Return these terms with a random serial: their token is revoked alone."""
        return replace(self, serial=secrets.randbelow((1 << 64) - 1) + 1)


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

    @classmethod
    def load(cls, key_file: Path) -> "Network":
        """Read the network's key file.

        Raises:
            NetworkMissing: there is none.
            KeyFileError: the file holds no key, or cannot be read.
        """
        if not key_file.exists():
            raise NetworkMissing(f"there is no network in {key_file.parent}")
        return cls(load_key(key_file))

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

    def sign(self, text: bytes) -> bytes:
        """Return the network's signature of a text that begins with its own domain."""
        return self._key.sign(text)

    def member_token(self) -> bytes:
        """Return the token of an invite: any peer, any role, no end."""
        return self.token(Terms())

    def token(self, terms: Terms) -> bytes:
        """Return the token of these terms, the same bytes each time. It is secret."""
        token = NetworkToken(
            network=self.network_id,
            peer_id=terms.peer_id,
            not_after_us=terms.not_after_us,
            role=terms.role,
            rate_class=terms.rate_class,
            serial=terms.serial,
        )
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
