"""A file that is being written beside its place, under a hidden name of its own.

`draft_of` gives it and takes it away again, whatever happens meanwhile. What was left
by a process that had no time to (killed, power gone) is taken away by the next draft of
the same place: a draft that is being written is locked, and a lock ends with its
process.
"""

import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final

__all__ = ["Draft", "draft_of"]

_MAX_SHOWN: Final = 60  # characters; a name may have 255 bytes
_TRIES: Final = 8


class Draft:
    """An open draft; `file` is to be written, `finish` gives it its place."""

    def __init__(self, path: Path, file: BinaryIO, place: Path) -> None:
        """Wrap what `draft_of` opened."""
        self.path = path
        self.file = file
        self._place = place

    def finish(self) -> None:
        """Bring it to the disk and rename it; OSError if that fails."""
        self.file.flush()
        os.fsync(self.file.fileno())
        self.path.replace(self._place)


@contextmanager
def draft_of(place: Path) -> Iterator[Draft]:
    """Give a new, empty draft of `place`; removed at the end unless it was finished.

    Raises:
        OSError: it cannot be made or removed.
    """
    stem = f".{place.name[:_MAX_SHOWN]}."
    _remove_abandoned(place.parent, stem)
    path, handle = _locked(place.parent, stem)
    try:
        with os.fdopen(handle, "wb") as file:
            yield Draft(path, file, place)
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _locked(folder: Path, stem: str) -> tuple[Path, int]:
    """Return a new file and its handle, locked where the system can lock."""
    for _ in range(_TRIES):
        path = folder / f"{stem}{secrets.token_hex(4)}.new"
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if path.exists():  # nobody took it for abandoned before it was locked
            return path, handle
        os.close(handle)
    raise FileNotFoundError(2, "drafts are removed as they are made", str(folder))


def _remove_abandoned(folder: Path, stem: str) -> None:
    pattern = re.compile(re.escape(stem) + r"[0-9a-f]{8}\.new")
    with suppress(OSError):
        for path in folder.iterdir():
            if pattern.fullmatch(path.name):
                _remove_unlocked(path)


def _remove_unlocked(path: Path) -> None:
    with suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink()
        finally:
            os.close(handle)
