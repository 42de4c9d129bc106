"""Positioned reads and writes, and what the system's errors mean for a shard folder.

A read or a write that the system cuts short is carried on; a short result of `read_at`
therefore means the end of the file (faults B03), never a signal or a limit.
"""

import errno
import os
from pathlib import Path

from mobile_worker.shards.errors import ShardError, StoreFull, StoreUnusable

__all__ = ["as_store_error", "read_at", "write_at"]

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def read_at(descriptor: int, offset: int, length: int) -> bytes:
    """Return up to `length` bytes from `offset`; fewer only at the end of the file."""
    pieces = []
    while length:
        piece = os.pread(descriptor, min(length, 1 << 30), offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def write_at(descriptor: int, offset: int, piece: bytes) -> None:
    """Write all of `piece` at `offset`."""
    view = memoryview(piece)
    while view:
        written = os.pwrite(descriptor, view, offset)
        offset += written
        view = view[written:]


def as_store_error(error: OSError, folder: Path) -> ShardError:
    """Return the error for people that a system error amounts to."""
    reason = (error.strerror or str(error)).lower()
    if error.errno in _FULL:
        return StoreFull(f"no space left for shards in {folder}: {reason}")
    return StoreUnusable(f"cannot use the shard folder {folder}: {reason}")
