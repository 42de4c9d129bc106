"""Messages with the market: offers, leases, models, demand, placement, refusals."""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mobile_worker.errors import MessageError
from mobile_worker.expert_id import ExpertId
from mobile_worker.messages.envelope import Dtype, MessageType
from mobile_worker.messages.fields import (
    DIGEST,
    FLAG,
    I63,
    LEASE_ID,
    PEER,
    PRICE_TABLE,
    RECORD,
    SIGNATURE,
    U8,
    U32,
    U64,
    Counts,
    Experts,
    Kind,
    Packed,
    Rows,
    Text,
    unpack_words,
)
from mobile_worker.shards.manifest import MAX_MANIFEST_BYTES
from relay.keys import PeerId

__all__ = [
    "Demand",
    "Held",
    "Holder",
    "Lease",
    "ManifestNotice",
    "Offer",
    "Placement",
    "Refused",
    "Release",
    "Renew",
]

_MANIFEST = Rows(MAX_MANIFEST_BYTES)
_MAX_EXPERTS = 1 << 20
_MAX_HOLDERS = 1 << 16
_HOLDER = struct.Struct("<BHI")  # device class, bytes of the record, number of experts


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """One worker of a placement: its signed record and the experts it has ready."""

    record: bytes
    device_class: int
    experts: tuple[ExpertId, ...]


@dataclass(frozen=True, slots=True)
class _Models:
    """Manifest hashes as u8 [n, 32]."""

    dtype: Dtype = Dtype.U8

    def pack(self, value: object) -> Packed | None:
        if not isinstance(value, tuple) or len(value) > 1024:
            raise MessageError(f"{value!r:.40} is no tuple of digests")
        for digest in value:
            DIGEST.check(digest)
        return ([self.dtype, len(value), 32], b"".join(value)) if value else None

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        if dimensions and (len(dimensions) != 2 or dimensions[1] != 32):
            raise MessageError(f"shape {dimensions}, not rows of 32")
        return tuple(bytes(raw[at : at + 32]) for at in range(0, len(raw), 32))


@dataclass(frozen=True, slots=True)
class _Holders:
    """Holders one after another: _HOLDER, record, packed experts (u32 each)."""

    dtype: Dtype = Dtype.U8

    def pack(self, value: object) -> Packed | None:
        if not isinstance(value, tuple):
            raise MessageError(f"{value!r:.40} is no tuple of holders")
        parts: list[bytes] = []
        for holder in value:
            if not isinstance(holder, Holder):
                raise MessageError(f"{holder!r:.40} is no holder")
            U8.check(holder.device_class)
            RECORD.check(holder.record)
            packed = Experts().pack(holder.experts)
            head = (holder.device_class, len(holder.record), len(holder.experts))
            parts += (_HOLDER.pack(*head), holder.record, packed[1] if packed else b"")
        body = b"".join(parts)
        return ([self.dtype, len(body)], body) if body else None

    def unpack(self, dimensions: Sequence[int], raw: memoryview) -> object:
        if len(dimensions) > 1:
            raise MessageError(f"shape {dimensions}, not a row of bytes")
        holders: list[Holder] = []
        at = 0
        while at < len(raw):
            if len(raw) - at < _HOLDER.size:
                raise MessageError("a holder is cut short")
            device_class, n_record, n_experts = _HOLDER.unpack_from(raw, at)
            record_at = at + _HOLDER.size
            experts_at = record_at + n_record
            at = experts_at + 4 * n_experts
            if at > len(raw):
                raise MessageError("a holder is cut short")
            if len(holders) >= _MAX_HOLDERS:
                raise MessageError(f"more than {_MAX_HOLDERS} holders")
            record = bytes(raw[record_at:experts_at])
            RECORD.check(record)
            words = unpack_words((), raw[experts_at:at], _MAX_EXPERTS)
            experts = tuple(map(ExpertId.unpack, words))
            holders.append(
                Holder(record=record, device_class=device_class, experts=experts)
            )
        return tuple(holders)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """OFFER, worker -> market: what this device gives, measured by itself.

    rate_macs_s: multiply-adds a second of the kernel. device_class: a `DeviceClass`.
    domain: failure domain, such as a network prefix. models: manifest hashes it
    accepts; empty means any.
    """

    TYPE: ClassVar[MessageType] = MessageType.OFFER
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "record": RECORD,
        "memory_bytes": I63,
        "disk_bytes": I63,
        "rate_macs_s": I63,
        "up_bytes_s": I63,
        "down_bytes_s": I63,
        "device_class": U8,
        "domain": Text(100),
        "models": _Models(),
    }

    record: bytes
    memory_bytes: int
    disk_bytes: int
    rate_macs_s: int
    up_bytes_s: int
    down_bytes_s: int
    device_class: int
    domain: str
    models: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """LEASE, market -> worker: the full set of experts of this lease.

    It replaces every earlier LEASE of the same id.
    """

    TYPE: ClassVar[MessageType] = MessageType.LEASE
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "lease": LEASE_ID,
        "backbone": PEER,
        "backbone_record": RECORD,
        "manifest_hash": DIGEST,
        "experts": Experts(),
        "price_table": PRICE_TABLE,
        "price_signature": SIGNATURE,
        "expires_in_s": U32,
    }

    lease: bytes
    backbone: PeerId
    backbone_record: bytes
    manifest_hash: bytes
    experts: tuple[ExpertId, ...]
    price_table: bytes
    price_signature: bytes
    expires_in_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """RENEW, worker -> market: still here, still holding."""

    TYPE: ClassVar[MessageType] = MessageType.RENEW
    FIELDS: ClassVar[Mapping[str, Kind]] = {"lease": LEASE_ID}

    lease: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """RELEASE, either side: these experts are no longer in the lease."""

    TYPE: ClassVar[MessageType] = MessageType.RELEASE
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "lease": LEASE_ID,
        "reason": Text(200),
        "experts": Experts(),
    }

    lease: bytes
    experts: tuple[ExpertId, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """HELD, worker -> market: these experts are loaded, verified and ready."""

    TYPE: ClassVar[MessageType] = MessageType.HELD
    FIELDS: ClassVar[Mapping[str, Kind]] = {"lease": LEASE_ID, "experts": Experts()}

    lease: bytes
    experts: tuple[ExpertId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestNotice:
    """MANIFEST, backbone -> market: the model it serves, signed by it."""

    TYPE: ClassVar[MessageType] = MessageType.MANIFEST
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "manifest": _MANIFEST,
        "signature": SIGNATURE,
        "backbone_record": RECORD,
    }

    manifest: bytes
    signature: bytes
    backbone_record: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """DEMAND, backbone -> market: measured use of experts since the last one.

    counts: pairs (expert, rows routed to it). at_hand: experts in its own memory.
    has_disk: it can read every expert from its own disk. n_tokens: how many tokens, of
    prompts and answers, went through the model since the last one.
    """

    TYPE: ClassVar[MessageType] = MessageType.DEMAND
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "manifest_hash": DIGEST,
        "counts": Counts(),
        "at_hand": Experts(),
        "has_disk": FLAG,
        "n_tokens": U32,
    }

    manifest_hash: bytes
    counts: tuple[tuple[ExpertId, int], ...]
    at_hand: tuple[ExpertId, ...]
    has_disk: bool
    n_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """PLACEMENT, market -> backbone: who holds what; always the whole picture."""

    TYPE: ClassVar[MessageType] = MessageType.PLACEMENT
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "manifest_hash": DIGEST,
        "serial": U64,
        "price_table": PRICE_TABLE,
        "price_signature": SIGNATURE,
        "holders": _Holders(),
    }

    manifest_hash: bytes
    serial: int
    price_table: bytes
    price_signature: bytes
    holders: tuple[Holder, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """REFUSED: the message of type `what` is not accepted, and why."""

    TYPE: ClassVar[MessageType] = MessageType.REFUSED
    FIELDS: ClassVar[Mapping[str, Kind]] = {"what": U8, "reason": Text(200)}

    what: int
    reason: str
