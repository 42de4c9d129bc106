r"""Revocations: the network's signed word on who may no longer use its relays. No I/O.

    revocations = a statement (`relay.statements`)
                  [1, network, version, [token hash (32 B), ...], [peer id (32 B), ...]]

A token is named by the SHA-256 of its whole bytes, so that the list tells nobody a
token. A revoked peer id is refused whatever token it shows, also at an open relay.
`version` only grows with each change. Both lists are sorted and without doubles: the
same revocations have the same bytes.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from relay.errors import ProtocolError
from relay.keys import PEER_ID_BYTES, PeerId
from relay.statements import (
    StatementKind,
    open_statement,
    peer_id_of,
    sign_statement,
)
from relay.tokens import TokenFault

__all__ = [
    "MAX_REVOCATIONS_BYTES",
    "MAX_REVOKED",
    "Revocations",
    "parse_revocations",
    "sign_revocations",
    "token_hash",
]

MAX_REVOKED: Final = 50_000  # of each kind
MAX_REVOCATIONS_BYTES: Final = 4 * 1024 * 1024
_MAX_VERSION: Final = 2**32 - 1
_HASH_BYTES: Final = 32
_KIND: Final = StatementKind(
    name="revocations",
    domain=b"p2pmoe revocations v1\0",
    format=1,
    n_fields=3,
    max_bytes=MAX_REVOCATIONS_BYTES,
    max_array_len=MAX_REVOKED,
)


def token_hash(token: bytes) -> bytes:
    """Return the 32 bytes by which a token is named where it must not be shown."""
    return hashlib.sha256(token).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Revocations:
    """What a network has revoked; `Revocations()` is nothing.

    network: None only of the empty one. encoded: what was signed, with the signature.
    """

    network: PeerId | None = None
    version: int = 0
    tokens: frozenset[bytes] = frozenset()
    peers: frozenset[PeerId] = frozenset()
    encoded: bytes = b""

    def fault(self, peer_id: PeerId, hashed: bytes) -> TokenFault | None:
        """Return why this bearer of the token with this hash is refused, or None."""
        if peer_id in self.peers:
            return TokenFault.PEER_REVOKED
        return TokenFault.REVOKED if hashed in self.tokens else None


def sign_revocations(
    revocations: Revocations, sign: Callable[[bytes], bytes]
) -> Revocations:
    """Return the revocations with their bytes, signed by the network key's `sign`.

    Raises:
        ProtocolError: a value is out of range; see `parse_revocations`. Also where
            `sign` is another key's.
    """
    fields = (
        revocations.version,
        sorted(revocations.tokens),
        sorted(revocations.peers),
    )
    encoded = sign_statement(_KIND, revocations.network or b"", fields, sign)
    return parse_revocations(encoded)


def parse_revocations(raw: bytes, network: PeerId | None = None) -> Revocations:
    """Parse revocations and check their signature.

    `network`: the network that they must be of; without it they vouch for themselves
    only, and the reader must compare `network`.

    Raises:
        ProtocolError: not exactly such a text, of another network, or not signed by it.
    """
    statement = open_statement(_KIND, raw, network)
    version, tokens, peers = statement.fields
    if type(version) is not int or not 1 <= version <= _MAX_VERSION:
        raise ProtocolError(f"revocations of version {version!r:.80}")
    return Revocations(
        network=statement.network,
        version=version,
        tokens=frozenset(_sorted("token", tokens, _HASH_BYTES)),
        peers=frozenset(
            peer_id_of(_KIND, each) for each in _sorted("peer", peers, PEER_ID_BYTES)
        ),
        encoded=raw,
    )


def _sorted(kind: str, values: object, size: int) -> Iterable[bytes]:
    """Check a list: byte strings of one size, each above the one before it."""
    if not isinstance(values, list):
        raise ProtocolError(f"revocations without a list of {kind}s")
    last = b""
    for value in values:
        if not isinstance(value, bytes) or len(value) != size or value <= last:
            raise ProtocolError(f"revocations: a {kind} out of place")
        last = value
    return values
