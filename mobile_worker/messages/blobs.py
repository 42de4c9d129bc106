"""Shard pieces by hash between any two peers: GET and BLOB."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from mobile_worker.errors import MessageError
from mobile_worker.messages.envelope import MessageType
from mobile_worker.messages.fields import DIGEST, I63, U8, U32, U64, Kind, Rows

__all__ = [
    "MAX_HOLDERS",
    "MAX_PIECE_BYTES",
    "Blob",
    "BlobError",
    "Get",
    "pack_holders",
    "unpack_holders",
]

MAX_HOLDERS = 8  # of an answer
MAX_PIECE_BYTES = 32 << 20

_LENGTH = struct.Struct("<H")


class BlobError(IntEnum):
    """Why a BLOB has no body."""

    OK = 0
    UNKNOWN = 1
    RANGE = 2
    BUSY = 3
    HOLDERS = 4  # not the bytes: the body names peers that have them
    PLACEMENT = 5  # not the bytes: the body is a frame, of the last placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    """GET: `length` bytes from `offset` of the shard with this SHA-256.

    A length of 0 asks a backbone who else has the shard; of a manifest it asks, while
    the market is away, who has which shard of the model.
    """

    TYPE: ClassVar[MessageType] = MessageType.GET
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "request": U64,
        "digest": DIGEST,
        "offset": I63,
        "length": U32,
    }

    request: int
    digest: bytes
    offset: int
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """BLOB: the bytes asked for, or `error` (a BlobError) and no body.

    total: the size of the whole shard in bytes, 0 if unknown. With the error HOLDERS
    the body is signed peer records one after the other, each behind its length (u16);
    with PLACEMENT it is the frame of a PLACEMENT, which only a market says by itself.
    """

    TYPE: ClassVar[MessageType] = MessageType.BLOB
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "request": U64,
        "digest": DIGEST,
        "offset": I63,
        "total": I63,
        "error": U8,
        "body": Rows(MAX_PIECE_BYTES),
    }

    request: int
    digest: bytes
    offset: int
    total: int
    error: int
    body: bytes


def pack_holders(records: Iterable[bytes]) -> bytes:
    """Return the body that names these encoded peer records, at most MAX_HOLDERS."""
    kept = list(records)[:MAX_HOLDERS]
    return b"".join(_LENGTH.pack(len(record)) + record for record in kept)


def unpack_holders(body: bytes) -> list[bytes]:
    """Return the encoded records that a body names, unchecked.

    Raises:
        MessageError: it is cut short, or names more than MAX_HOLDERS.
    """
    records: list[bytes] = []
    at = 0
    while at < len(body):
        if len(records) >= MAX_HOLDERS or len(body) - at < _LENGTH.size:
            raise MessageError("a list of holders is too long or cut short")
        (length,) = _LENGTH.unpack_from(body, at)
        at += _LENGTH.size
        if length > len(body) - at:
            raise MessageError("a list of holders is cut short")
        records.append(bytes(body[at : at + length]))
        at += length
    return records
