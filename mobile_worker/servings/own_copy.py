"""A worker's own copy of what it filed, and what the ledger answered.

Contract: one record for each voucher that the ledger acknowledged or refused, durable
before the voucher leaves the spool: from these files alone a worker can show what it is
owed, signed by its backbones, and compare it with the ledger's books. Records are only
ever added; beyond `max_bytes` the oldest file goes. Files are `NNNNNNNN.receipts`, each
record

    length u32 | crc32 u32 | status u8 | answered_us u64 | n u8 | reason n bytes
    | worker's signature 64 | backbone's signature 64 | voucher

with the crc over all that follows it and length that of it. A damaged end, of a write
that a power cut ended, is cut at opening; a file that is damaged before its end is left
as it is, read up to there, and said to be. One process writes, any number read.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from errno import ENOSPC
from pathlib import Path
from zlib import crc32

from ledger.claims import FiledStatus
from ledger.errors import FormatRefused, StoreUnavailable
from ledger.folders import sync_folder
from ledger.voucher import MAX_VOUCHER_BYTES, SignedVoucher

__all__ = ["OwnCopy", "OwnReceipt", "parse_receipt", "read_receipts"]

_FRAME = struct.Struct(">II")
_HEAD = struct.Struct(">BQB")
_SIGNATURE_BYTES = 64
_MAX_REASON = 200
_MAX_RECORD = _HEAD.size + _MAX_REASON + 2 * _SIGNATURE_BYTES + MAX_VOUCHER_BYTES
_FILE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnReceipt:
    """A filed voucher as this worker has it, and the answer to it."""

    signed: SignedVoucher
    status: FiledStatus
    reason: str
    answered_us: int

    def pack(self) -> bytes:
        """Return the record's bytes, without its frame."""
        reason = self.reason.encode("utf-8", "replace")[:_MAX_REASON]
        head = _HEAD.pack(self.status, self.answered_us, len(reason))
        signatures = self.signed.worker_signature, self.signed.backbone_signature
        padded = (each.ljust(_SIGNATURE_BYTES, b"\0") for each in signatures)
        return head + reason + b"".join(padded) + self.signed.raw


def parse_receipt(raw: bytes) -> OwnReceipt:
    """Read a record's bytes back.

    Raises:
        FormatRefused: it is cut short, or has a status that is none.
    """
    if len(raw) < _HEAD.size or len(raw) > _MAX_RECORD:
        raise FormatRefused(f"own receipt of {len(raw)} bytes")
    status, answered_us, n_reason = _HEAD.unpack_from(raw)
    at = _HEAD.size + n_reason
    end = at + 2 * _SIGNATURE_BYTES
    if len(raw) <= end or status not in set(FiledStatus):
        raise FormatRefused(f"own receipt of status {status}, {len(raw)} bytes")
    middle = at + _SIGNATURE_BYTES
    return OwnReceipt(
        signed=SignedVoucher(
            raw=raw[end:],
            worker_signature=raw[at:middle],
            backbone_signature=raw[middle:end],
        ),
        status=FiledStatus(status),
        reason=raw[_HEAD.size : at].decode("utf-8", "replace"),
        answered_us=answered_us,
    )


class OwnCopy:
    """The writing side of a folder of own receipts."""

    def __init__(self, folder: Path, *, max_bytes: int = 64 << 20) -> None:
        """Open or make the folder; cut a damaged end off.

        Raises:
            StoreUnavailable: it cannot be made, read or written.
        """
        self._folder = folder
        self._max_bytes = max_bytes
        try:
            folder.mkdir(parents=True, exist_ok=True)
            numbers = _numbers(folder)
            self._number = numbers[-1] if numbers else 1
            path = _path(folder, self._number)
            if path.exists():
                raw = path.read_bytes()
                whole = sum(len(record) + _FRAME.size for record in _records(raw))
                if _is_torn(raw[whole:]):
                    os.truncate(path, whole)
                elif whole < len(raw):
                    self._number += 1  # what follows the damage may still be read
        except OSError as exc:
            raise StoreUnavailable(f"receipts {folder}: {exc.strerror}") from exc

    def add(self, receipt: OwnReceipt) -> None:
        """Put a receipt on the disk.

        Raises:
            StoreUnavailable: the disk refused; nothing was added.
        """
        body = receipt.pack()
        record = _FRAME.pack(len(body), crc32(body)) + body
        try:
            self._make_room(len(record))
            self._append(record)
        except OSError as exc:
            raise StoreUnavailable(f"receipts {self._folder}: {exc.strerror}") from exc

    def _append(self, record: bytes) -> None:
        path = _path(self._folder, self._number)
        is_new = not path.exists()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        handle = os.open(path, flags, 0o600)
        try:
            size = os.fstat(handle).st_size
            if os.write(handle, record) < len(record):
                os.ftruncate(handle, size)
                raise OSError(ENOSPC, os.strerror(ENOSPC))
            os.fsync(handle)
        finally:
            os.close(handle)
        if is_new:
            sync_folder(self._folder)

    def _make_room(self, n_bytes: int) -> None:
        path = _path(self._folder, self._number)
        if path.exists() and path.stat().st_size + n_bytes > _FILE_BYTES:
            self._number += 1
        sizes = {
            n: _path(self._folder, n).stat().st_size for n in _numbers(self._folder)
        }
        for number in sorted(sizes):
            if sum(sizes.values()) + n_bytes <= self._max_bytes or len(sizes) == 1:
                break
            _path(self._folder, number).unlink()
            del sizes[number]


def read_receipts(folder: Path) -> Iterator[OwnReceipt]:
    """Yield every receipt of a folder, oldest first; none where there is no folder.

    Raises:
        StoreUnavailable: a file cannot be read, or is damaged before its end.
        FormatRefused: a whole record says nothing that could be meant.
    """
    numbers = _numbers(folder)
    for number in numbers:
        path = _path(folder, number)
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            continue  # the worker made room
        except OSError as exc:
            raise StoreUnavailable(f"{path}: {exc.strerror}") from exc
        n_bytes = 0
        for record in _records(raw):
            n_bytes += len(record) + _FRAME.size
            yield parse_receipt(record)
        if n_bytes < len(raw) and number != numbers[-1]:
            raise StoreUnavailable(f"{path} is damaged at byte {n_bytes} of {len(raw)}")


def _records(raw: bytes) -> Iterator[bytes]:
    """Yield whole records up to the first that is not."""
    at = 0
    while at + _FRAME.size <= len(raw):
        length, crc = _FRAME.unpack_from(raw, at)
        at += _FRAME.size
        record = raw[at : at + length]
        is_possible = _HEAD.size <= length <= _MAX_RECORD  # zeros are no record
        if not is_possible or len(record) < length or crc32(record) != crc:
            return
        yield record
        at += length


def _is_torn(rest: bytes) -> bool:
    """Say whether what follows the whole records is one that a power cut ended."""
    if not rest or not any(rest):
        return bool(rest)
    if len(rest) < _FRAME.size:
        return True
    length: int = _FRAME.unpack_from(rest)[0]
    return len(rest) <= _FRAME.size + min(length, _MAX_RECORD)


def _numbers(folder: Path) -> list[int]:
    names = (path.stem for path in folder.glob("*.receipts"))
    return sorted(int(name) for name in names if name.isdecimal() and len(name) == 8)


def _path(folder: Path, number: int) -> Path:
    return folder / f"{number:08d}.receipts"
