"""Messages about money: permission to incur debt, vouchers, filing at the ledger.

Vouchers, grants and leaves are bytes here, as their signers made them: the ledger's
own modules parse and verify them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from ledger.leaf import LEAF_BYTES
from ledger.voucher import MAX_VOUCHER_BYTES
from mobile_worker.messages.envelope import MessageType
from mobile_worker.messages.fields import (
    DIGEST,
    I63,
    PEER,
    PRICE_TABLE,
    SIGNATURE,
    U8,
    U64,
    Bytes,
    Kind,
    Rows,
    Text,
)

__all__ = [
    "Countersign",
    "File",
    "Filed",
    "Grant",
    "GrantRequest",
    "Voucher",
]

_LEAVES = Rows(LEAF_BYTES * 500_000, LEAF_BYTES)
_VOUCHER = Rows(MAX_VOUCHER_BYTES)
_SIGNATURE_OR_NONE = Bytes((0, 64))


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantRequest:
    """GRANT_REQUEST, backbone -> ledger: reserve `ceiling_uc` for this worker."""

    TYPE: ClassVar[MessageType] = MessageType.GRANT_REQUEST
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "request": U64,
        "worker": PEER,
        "ceiling_uc": I63,
        "price_table": PRICE_TABLE,
        "price_signature": SIGNATURE,
    }

    request: int
    worker: bytes
    ceiling_uc: int
    price_table: bytes
    price_signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """GRANT, ledger -> backbone -> worker: the signed permission, or an `error`."""

    TYPE: ClassVar[MessageType] = MessageType.GRANT
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "request": U64,
        "grant": Bytes(max_length=4096),
        "signature": _SIGNATURE_OR_NONE,
        "error": Text(200),
    }

    request: int
    grant: bytes
    signature: bytes
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Voucher:
    """VOUCHER, worker -> backbone: signed by the worker, with the leaves it adds."""

    TYPE: ClassVar[MessageType] = MessageType.VOUCHER
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "voucher": _VOUCHER,
        "worker_signature": SIGNATURE,
        "leaves": _LEAVES,
    }

    voucher: bytes
    worker_signature: bytes
    leaves: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Countersign:
    """COUNTERSIGN, backbone -> worker: the second signature, or why there is none."""

    TYPE: ClassVar[MessageType] = MessageType.COUNTERSIGN
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "voucher_hash": DIGEST,
        "backbone_signature": _SIGNATURE_OR_NONE,
        "error": Text(200),
    }

    voucher_hash: bytes
    backbone_signature: bytes
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """FILE, either side -> ledger: a signed voucher and the leaves not filed before.

    Of a final voucher either signature may be empty. Also backbone -> worker: a final
    for a tab that the worker lost; it answers with its VOUCHER, without leaves.
    """

    TYPE: ClassVar[MessageType] = MessageType.FILE
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "voucher": _VOUCHER,
        "worker_signature": _SIGNATURE_OR_NONE,
        "backbone_signature": _SIGNATURE_OR_NONE,
        "leaves": _LEAVES,
    }

    voucher: bytes
    worker_signature: bytes
    backbone_signature: bytes
    leaves: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Filed:
    """FILED, ledger -> the filer: 0 stored, 1 duplicate, 2 rejected, 3 try again."""

    TYPE: ClassVar[MessageType] = MessageType.FILED
    FIELDS: ClassVar[Mapping[str, Kind]] = {
        "voucher_hash": DIGEST,
        "status": U8,
        "reason": Text(200),
    }

    voucher_hash: bytes
    status: int
    reason: str
