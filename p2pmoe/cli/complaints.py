"""Errors made for people, as the one line that the command line prints.

Each package's error tree carries `advice` and `exit_code`; this module only finds the
error that a person should see, inside trio's exception groups too.
"""

import dataclasses
import errno

from ledger.errors import LedgerError
from mobile_worker.errors import WorkerError
from p2pmoe.errors import P2pmoeError
from relay.errors import RelayError

__all__ = ["Complaint", "complaint_of"]

_FAMILIES = (P2pmoeError, WorkerError, RelayError, LedgerError)
_DISK_ADVICE = {
    errno.ENOSPC: "free some space or name another folder with --data",
    errno.EROFS: "name a folder that can be written with --data",
    errno.EACCES: "check the permissions, or name another folder with --data",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """What to print, and the code to exit with."""

    line: str
    exit_code: int


def complaint_of(error: BaseException) -> Complaint | None:
    """Return the line for a person, or None if the error is a fault of the program."""
    leaves = list(_leaves(error))
    for leaf in leaves:
        if isinstance(leaf, _FAMILIES):
            text = str(leaf).rstrip(".")
            line = f"{text}. {leaf.advice}" if leaf.advice else text
            return Complaint(line=" ".join(line.split()), exit_code=leaf.exit_code)
    for leaf in leaves:
        if isinstance(leaf, OSError) and leaf.errno in _DISK_ADVICE:
            where = f" ({leaf.filename})" if leaf.filename else ""
            line = f"{leaf.strerror}{where}: {_DISK_ADVICE[leaf.errno]}"
            return Complaint(line=line, exit_code=2)
    return None


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
