"""Signed msgpack arrays: what peer records and network descriptors are made of.

    msgpack array [version, ...] || 64 B Ed25519 signature over domain || msgpack bytes

The signature is over the bytes as received, under a domain string of its own, and is
checked before any value is looked at further. Every refusal is a `RecordError`.
"""

from collections.abc import Callable, Sequence

import msgpack

from mobile_worker.errors import RecordError
from relay.errors import WeakKey
from relay.keys import SIGNATURE_BYTES, PeerId, check_peer_id, verify

__all__ = ["MAX_SIGNED_BYTES", "open_signed", "peer_id_of", "seal_signed"]

MAX_SIGNED_BYTES = 1024
_MAX_LIST = 16


def seal_signed(
    domain: bytes, values: Sequence[object], sign: Callable[[bytes], bytes]
) -> bytes:
    """Return the signed bytes of a row of integers, strings, bytes and short lists.

    Raises:
        RecordError: they do not fit MAX_SIGNED_BYTES.
    """
    packed: bytes = msgpack.packb(values)
    if len(packed) + SIGNATURE_BYTES > MAX_SIGNED_BYTES:
        raise RecordError(f"{len(packed)} bytes are too long for a record")
    return packed + sign(domain + packed)


def open_signed(domain: bytes, encoded: bytes, signer: int) -> tuple[object, ...]:
    """Return the values if the key at index `signer` among them signed the bytes.

    Raises:
        RecordError: too long, no array, no acceptable key, or a wrong signature.
    """
    if not SIGNATURE_BYTES < len(encoded) <= MAX_SIGNED_BYTES:
        raise RecordError(f"a record of {len(encoded)} bytes")
    packed, signature = encoded[:-SIGNATURE_BYTES], encoded[-SIGNATURE_BYTES:]
    try:
        values = msgpack.unpackb(
            packed,
            use_list=False,
            max_array_len=_MAX_LIST,
            max_map_len=0,
            max_ext_len=0,
        )
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise RecordError("the record is no bounded msgpack array") from error
    if not isinstance(values, tuple) or len(values) <= signer:
        raise RecordError("the record is no array of the right length")
    if not verify(peer_id_of(values[signer]), domain + packed, signature):
        raise RecordError("the signature of the record is wrong")
    return values


def peer_id_of(value: object) -> PeerId:
    """Return the value as an acceptable peer id, or raise RecordError."""
    if not isinstance(value, bytes):
        raise RecordError("a peer id is not bytes")
    try:
        return check_peer_id(value)
    except WeakKey as error:
        raise RecordError(str(error)) from error
