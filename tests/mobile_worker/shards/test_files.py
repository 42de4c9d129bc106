"""Positioned reads and writes."""

import errno
import os
from pathlib import Path

from mobile_worker.shards.errors import StoreFull, StoreUnusable
from mobile_worker.shards.files import as_store_error, read_at, write_at


def test_write_then_read_at_positions(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "f", os.O_RDWR | os.O_CREAT)
    write_at(descriptor, 3, b"defg")
    write_at(descriptor, 0, b"abc")
    assert read_at(descriptor, 0, 7) == b"abcdefg"
    assert read_at(descriptor, 5, 100) == b"fg"
    assert read_at(descriptor, 7, 1) == b""
    os.close(descriptor)


def test_full_and_unusable_are_told_apart(tmp_path: Path) -> None:
    full = as_store_error(OSError(errno.ENOSPC, "No space left on device"), tmp_path)
    assert isinstance(full, StoreFull)
    assert "no space left" in str(full)
    other = as_store_error(OSError(errno.EROFS, "Read-only file system"), tmp_path)
    assert isinstance(other, StoreUnusable)
    assert "read-only file system" in str(other)
