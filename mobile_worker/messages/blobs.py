"""Shard pieces by hash between any two peers: GET and BLOB."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from mobile_worker.messages.envelope import MessageType
from mobile_worker.messages.fields import DIGEST, I63, U8, U32, U64, Kind, Rows

__all__ = ["MAX_PIECE_BYTES", "Blob", "BlobError", "Get"]

MAX_PIECE_BYTES = 32 << 20


class BlobError(IntEnum):
    """Why a BLOB has no body."""

    OK = 0
    UNKNOWN = 1
    RANGE = 2
    BUSY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Get:
    """GET: `length` bytes from `offset` of the shard with this SHA-256."""

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

    total: the size of the whole shard in bytes, 0 if unknown.
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
