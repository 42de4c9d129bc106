r"""One entry of the log: a closed voucher, both signatures, and the terms it closed by.

Contract: one canonical binary encoding, big-endian:

    magic "PMLE" | version u8 | n u16 | voucher n | worker_signature 64
    | backbone_signature 64 | policy_hash 32

The voucher is the bytes as received. `policy_hash` names the operator's signed policy
(fee, holdback, windows) that held when the voucher's key was closed. The entry's place
in the tree is named by its RFC 6962 leaf hash, `SHA-256(0x00 || entry)`. An entry is
always shorter than 65,536 bytes, the bound of an entry in a tile. Pure: signatures are
not checked here (`SignedVoucher.verified` does).
"""

import struct
from dataclasses import dataclass
from hashlib import sha256

from ledger.errors import FormatRefused
from ledger.voucher import MAX_VOUCHER_BYTES, SignedVoucher

__all__ = ["MAX_ENTRY_BYTES", "LogEntry", "entry_hash", "pack_entry"]

_MAGIC, _VERSION = b"PMLE", 1
_HEAD = struct.Struct(">4sBH")
_TAIL = struct.Struct(">64s64s32s")
MAX_ENTRY_BYTES = _HEAD.size + MAX_VOUCHER_BYTES + _TAIL.size


@dataclass(frozen=True, slots=True)
class LogEntry:
    """What an entry says; nothing of it is verified yet."""

    signed: SignedVoucher
    policy_hash: bytes  # [32]

    @staticmethod
    def parse(raw: bytes) -> "LogEntry":
        """Read an entry back.

        Raises:
            FormatRefused: wrong magic, version or length.
        """
        if not _HEAD.size + _TAIL.size < len(raw) <= MAX_ENTRY_BYTES:
            raise FormatRefused(f"log entry of {len(raw)} bytes")
        magic, version, n_bytes = _HEAD.unpack_from(raw)
        if magic != _MAGIC or version != _VERSION:
            raise FormatRefused(f"log entry: magic {magic!r} version {version}")
        end = _HEAD.size + n_bytes
        if len(raw) != end + _TAIL.size:
            raise FormatRefused(f"log entry: voucher of {n_bytes} in {len(raw)} bytes")
        worker_signature, backbone_signature, policy_hash = _TAIL.unpack_from(raw, end)
        signed = SignedVoucher(
            raw=raw[_HEAD.size : end],
            worker_signature=worker_signature,
            backbone_signature=backbone_signature,
        )
        return LogEntry(signed, policy_hash)


def pack_entry(signed: SignedVoucher, policy_hash: bytes) -> bytes:
    """Return the entry's canonical bytes.

    Args:
        signed: the voucher that closed its key, as received, with both signatures.
        policy_hash: SHA-256 of the signed policy it closed under, 32 bytes.

    Raises:
        FormatRefused: a part has a wrong length.
    """
    lengths = tuple(
        map(len, (signed.worker_signature, signed.backbone_signature, policy_hash))
    )
    if lengths != (64, 64, 32) or not 0 < len(signed.raw) <= MAX_VOUCHER_BYTES:
        raise FormatRefused(f"log entry: voucher of {len(signed.raw)}, parts {lengths}")
    return b"".join(
        (
            _HEAD.pack(_MAGIC, _VERSION, len(signed.raw)),
            signed.raw,
            signed.worker_signature,
            signed.backbone_signature,
            policy_hash,
        )
    )


def entry_hash(raw: bytes) -> bytes:
    """Return the 32-byte leaf hash of an entry (RFC 6962, section 2.1)."""
    return sha256(b"\x00" + raw).digest()
