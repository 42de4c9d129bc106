"""Messages of any two peers about their being there: HELLO, DRAINING, BUSY, CANCEL."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from mobile_worker.messages.envelope import MessageType
from mobile_worker.messages.fields import (
    DIGEST,
    FLAG,
    U8,
    U32,
    U64,
    Bytes,
    Kind,
    Text,
    Versions,
)

__all__ = ["PROTOCOL_VERSION", "Busy", "Cancel", "Draining", "Hello"]

PROTOCOL_VERSION = 1  # of the messages; the one that this program speaks


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """HELLO, or with `ack` HELLO_ACK: what a side speaks and can do.

    manifest_hash: SHA-256 of the model's manifest, or empty.
    profile: the result coding this side prefers (a `Profile`: 0 r32, 1 r16, 2 r8).
    self_test: digest of this side's arithmetic over fixed vectors.
    max_rows: rows it takes in one DISPATCH.
    tab: the account of this worker process with that backbone, or empty.
    """

    TYPE: ClassVar[MessageType] = MessageType.HELLO
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "versions": Versions(),
        "manifest_hash": Bytes((0, 32)),
        "profile": U8,
        "self_test": DIGEST,
        "max_rows": U32,
        "tab": Bytes((0, 8)),
        "ack": FLAG,
    }

    versions: tuple[int, ...]
    manifest_hash: bytes
    profile: int
    self_test: bytes
    max_rows: int
    tab: bytes
    ack: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Draining:
    """DRAINING: no new work, please; what runs is finished."""

    TYPE: ClassVar[MessageType] = MessageType.DRAINING
    FIELDS: ClassVar[Mapping[str, Kind]] = {"reason": Text(200)}

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Busy:
    """BUSY: `request` was not taken; `queued` wait; try again after `retry_ms`."""

    TYPE: ClassVar[MessageType] = MessageType.BUSY
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "request": U64,
        "queued": U32,
        "retry_ms": U32,
    }

    request: int
    queued: int
    retry_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancel:
    """CANCEL: the answer to `request` is no longer wanted."""

    TYPE: ClassVar[MessageType] = MessageType.CANCEL
    FIELDS: ClassVar[Mapping[str, Kind]] = {"request": U64}

    request: int
