"""Since when nobody has used this machine: input at its terminals, from Linux's `/dev`.

A terminal's file is marked as read when somebody types there (within 8 s; that is how
exactly the system keeps it). Where a desktop runs, its login manager tells more: see
`outside`.
"""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Final

__all__ = ["last_input_s"]

_MAX_TERMINALS: Final = 256
_PATTERNS: Final = ("tty[0-9]*", "pts/[0-9]*")


def last_input_s(devices: Path) -> float | None:
    """Return when a terminal was last read, in seconds since 1970; None if none was."""
    seen = (_read_at(path) for path in islice(_terminals(devices), _MAX_TERMINALS))
    return max((at for at in seen if at is not None), default=None)


def _terminals(devices: Path) -> Iterable[Path]:
    for pattern in _PATTERNS:
        yield from devices.glob(pattern)


def _read_at(path: Path) -> float | None:
    try:
        return path.stat().st_atime
    except OSError:
        return None
