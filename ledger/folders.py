"""Folders: their names are made durable, and one process at a time holds one.

Contract: `sync_folder` returns once the folder's entries are on the disk. Where the
system does not let a folder be synced (Windows), it does nothing: names are journalled
there. `lock_folder` is for what a person may delete a lock file of: a folder stays.
Sources: fsync(2), the note on directories; flock(2).
"""

import contextlib
import os
import sys
from pathlib import Path

if sys.platform != "win32":
    import fcntl

__all__ = ["lock_folder", "sync_folder", "unlock_folder"]


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on the disk.

    Raises:
        OSError: the folder cannot be opened, or the disk refused.
    """
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def lock_folder(folder: Path) -> int | None:
    """Hold a folder until `unlock_folder` or the end of the process.

    Returns:
        What to give back; None where the system or the file system has no such lock.

    Raises:
        BlockingIOError: another process holds it.
    """
    if sys.platform == "win32":
        return None
    handle = -1
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        if handle >= 0:
            os.close(handle)
        return None
    return handle


def unlock_folder(handle: int | None) -> None:
    """Give back what `lock_folder` returned."""
    if handle is None or sys.platform == "win32":
        return
    with contextlib.suppress(OSError):  # closing gives it back as well
        fcntl.flock(handle, fcntl.LOCK_UN)
    os.close(handle)
