"""Make file names durable: a new or renamed file needs its folder synced as well.

Contract: `sync_folder` returns once the folder's entries are on the disk. Where the
system does not let a folder be synced (Windows), it does nothing: names are journalled
there. Source: fsync(2), the note on directories.
"""

import os
from pathlib import Path

__all__ = ["sync_folder"]


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
