r"""Revocations: the network's signed word on who may no longer use its relays. No I/O.

    revocations = body || 64 B signature by the network key over DOMAIN || body
    body        = msgpack [1, network (32 B), version, [token hash (32 B), ...],
                  [peer id (32 B), ...]]

A token is named by the SHA-256 of its whole bytes, so that the list tells nobody a
token. A revoked peer id is refused whatever token it shows, also at an open relay.
`version` only grows with each change. Both lists are sorted and without doubles: the
same revocations have the same bytes.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

import msgpack

from relay.errors import ProtocolError, WeakKey
from relay.keys import (
    PEER_ID_BYTES,
    SIGNATURE_BYTES,
    PeerId,
    check_peer_id,
    short_id,
    verify,
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
_DOMAIN: Final = b"p2pmoe revocations v1\0"
_FORMAT: Final = 1


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
        ProtocolError: a value is out of range; see `parse_revocations`.
    """
    body: bytes = msgpack.packb(
        [
            _FORMAT,
            revocations.network or b"",
            revocations.version,
            sorted(revocations.tokens),
            sorted(revocations.peers),
        ]
    )
    encoded = body + sign(_DOMAIN + body)
    if len(encoded) > MAX_REVOCATIONS_BYTES:
        raise ProtocolError(f"revocations of {len(encoded)} bytes")
    return _parse_body(body, encoded)


def parse_revocations(raw: bytes, network: PeerId | None = None) -> Revocations:
    """Parse revocations and check their signature.

    `network`: the network that they must be of; without it they vouch for themselves
    only, and the reader must compare `network`.

    Raises:
        ProtocolError: not exactly such a text, of another network, or not signed by it.
    """
    if not SIGNATURE_BYTES < len(raw) <= MAX_REVOCATIONS_BYTES:
        raise ProtocolError(f"revocations of {len(raw)} bytes")
    body, signature = raw[:-SIGNATURE_BYTES], raw[-SIGNATURE_BYTES:]
    revocations = _parse_body(body, raw)
    signer = revocations.network
    if network is not None and signer != network:
        raise ProtocolError(
            f"revocations of network {short_id(signer or b'')}, not {short_id(network)}"
        )
    if signer is None or not verify(signer, _DOMAIN + body, signature):
        raise ProtocolError("revocations with a wrong signature")
    return revocations


def _parse_body(body: bytes, raw: bytes) -> Revocations:
    try:
        values = msgpack.unpackb(
            body,
            max_array_len=MAX_REVOKED,
            max_map_len=0,
            max_ext_len=0,
            max_bin_len=_HASH_BYTES,
            max_str_len=0,
        )
    except (ValueError, msgpack.UnpackException) as exc:
        raise ProtocolError(f"revocations: {exc}") from exc
    if not isinstance(values, list) or len(values) != 5 or values[0] != _FORMAT:
        raise ProtocolError("revocations of an unknown format")
    _, network, version, tokens, peers = values
    if type(version) is not int or not 1 <= version <= _MAX_VERSION:
        raise ProtocolError(f"revocations of version {version!r:.80}")
    return Revocations(
        network=_peer(network),
        version=version,
        tokens=frozenset(_sorted("token", tokens, _HASH_BYTES)),
        peers=frozenset(_peer(raw) for raw in _sorted("peer", peers, PEER_ID_BYTES)),
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


def _peer(raw: object) -> PeerId:
    if not isinstance(raw, bytes):
        raise ProtocolError("revocations: an id is not bytes")
    try:
        return check_peer_id(raw)
    except WeakKey as exc:
        raise ProtocolError(f"revocations: {exc}") from exc
