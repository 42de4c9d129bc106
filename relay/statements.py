r"""Signed statements: what a network says to all, handed on by anybody. No I/O in here.

    statement = body || 64 B signature by the network key over DOMAIN || body
    body      = msgpack [format, network (32 B), field, ...]

A statement is believed for its signature alone, so that relays, caches and mirrors need
no trust. Only the network's id is read before the signature is checked.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

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

__all__ = [
    "Statement",
    "StatementKind",
    "open_statement",
    "peer_id_of",
    "sign_statement",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementKind:
    """What tells one kind of statement from others, and how large it may be.

    `name` stands in errors. `n_fields`: those behind format and network. Byte strings
    inside have at most 32 bytes; there are no maps.
    """

    name: str
    domain: bytes
    format: int
    n_fields: int
    max_bytes: int
    max_array_len: int
    max_str_len: int = 0


class Statement(NamedTuple):
    """What a network said; the fields are its word, and may still be of any type."""

    network: PeerId
    fields: list[Any]


def sign_statement(
    kind: StatementKind,
    network: bytes,
    fields: Iterable[object],
    sign: Callable[[bytes], bytes],
) -> bytes:
    """Return the statement's bytes, signed by the network key's `sign`.

    Raises:
        ProtocolError: it is larger than its kind may be.
    """
    body: bytes = msgpack.packb([kind.format, network, *fields])
    encoded = body + sign(kind.domain + body)
    if len(encoded) > kind.max_bytes:
        raise ProtocolError(f"{kind.name} of {len(encoded)} bytes")
    return encoded


def open_statement(
    kind: StatementKind, raw: bytes, network: PeerId | None = None
) -> Statement:
    """Return what a network said in these bytes, and which network it was.

    `network`: the only one to be believed. Without it the statement vouches for itself
    alone, and the reader must compare.

    Raises:
        ProtocolError: no such statement, of another network, or not signed by its own.
    """
    if not SIGNATURE_BYTES < len(raw) <= kind.max_bytes:
        raise ProtocolError(f"{kind.name} of {len(raw)} bytes")
    body, signature = raw[:-SIGNATURE_BYTES], raw[-SIGNATURE_BYTES:]
    statement = _read(kind, body)
    signer = statement.network
    if network is not None and signer != network:
        raise ProtocolError(
            f"{kind.name} of network {short_id(signer)}, not {short_id(network)}"
        )
    if not verify(signer, kind.domain + body, signature):
        raise ProtocolError(f"{kind.name} with a wrong signature")
    return statement


def peer_id_of(kind: StatementKind, value: object) -> PeerId:
    """Return a field that must be an id.

    Raises:
        ProtocolError: it is none.
    """
    if not isinstance(value, bytes):
        raise ProtocolError(f"{kind.name}: an id is not bytes")
    try:
        return check_peer_id(value)
    except WeakKey as exc:
        raise ProtocolError(f"{kind.name}: {exc}") from exc


def _read(kind: StatementKind, body: bytes) -> Statement:
    try:
        values = msgpack.unpackb(
            body,
            max_array_len=kind.max_array_len,
            max_map_len=0,
            max_ext_len=0,
            max_bin_len=PEER_ID_BYTES,
            max_str_len=kind.max_str_len,
        )
    except (ValueError, msgpack.UnpackException) as exc:
        raise ProtocolError(f"{kind.name}: {exc}") from exc
    if not isinstance(values, list) or len(values) != 2 + kind.n_fields:
        raise ProtocolError(f"{kind.name} of an unknown format")
    found, network, *fields = values
    if found != kind.format:
        raise ProtocolError(f"{kind.name} of an unknown format")
    return Statement(peer_id_of(kind, network), fields)
