"""Where a service's control socket lies, by a path that is short enough for a socket.

A socket's path is at most about a hundred bytes, a folder's may be longer. Where the
system shows a process its open files (Linux), such a folder is opened and the path
leads through it; nothing is made elsewhere that a killed process would leave behind.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["MAX_SOCKET_PATH", "SOCKET_NAME", "socket_address"]

SOCKET_NAME = "control.sock"
MAX_SOCKET_PATH = 100  # the system takes 107 bytes, macOS 103
_OPEN_FILES = Path("/proc/self/fd")


@contextlib.contextmanager
def socket_address(folder: Path) -> Iterator[str]:
    """Give the address to bind or connect to, good within the block.

    Raises:
        OSError: the folder cannot be opened, or its path is too long here.
    """
    path = folder / SOCKET_NAME
    if len(os.fsencode(path)) <= MAX_SOCKET_PATH:
        yield os.fspath(path)
        return
    if not _OPEN_FILES.exists():
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"{_OPEN_FILES}/{opened}/{SOCKET_NAME}"
    finally:
        os.close(opened)
