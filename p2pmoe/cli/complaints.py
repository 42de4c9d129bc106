"""Errors made for people, as the one line that the command line prints.

Each package's error tree carries `advice` and `exit_code`; this module only finds the
error that a person should see, inside trio's exception groups too, the command line's
own usage errors, and packages of an extra that is not installed. What a peer or a file
wrote into an error cannot steer the terminal: a line holds printable characters only.
"""

import dataclasses
import errno

from ledger.errors import LedgerError
from mobile_worker.errors import WorkerError
from p2pmoe.cli.extras import missing_extra
from p2pmoe.errors import P2pmoeError
from relay.errors import RelayError

__all__ = ["Complaint", "complaint_of", "sentence"]

_FAMILIES = (P2pmoeError, WorkerError, RelayError, LedgerError)
_DISK_ADVICE = {
    errno.ENOSPC: "free some space or name another folder with --data",
    errno.EDQUOT: "free some space or name another folder with --data",
    errno.EFBIG: "raise the limit on files or name another folder with --data",
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
            return _complaint(str(leaf), leaf.advice, leaf.exit_code)
    for leaf in leaves:
        if isinstance(leaf, ModuleNotFoundError) and (missing := missing_extra(leaf)):
            return _complaint(str(missing), missing.advice, missing.exit_code)
        if isinstance(leaf, OSError) and leaf.errno in _DISK_ADVICE:
            where = f" ({leaf.filename})" if leaf.filename else ""
            return _complaint(f"{leaf.strerror}{where}", _DISK_ADVICE[leaf.errno], 2)
    return _usage(error)


def _usage(error: BaseException) -> Complaint | None:
    """Return the line for an option or argument that typer refused."""
    # Which module typer's usage errors come from depends on its version.
    if not any(kind.__name__ == "UsageError" for kind in type(error).__mro__):
        return None
    message = getattr(error, "format_message", error.__str__)()
    context = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "p2pmoe")
    advice = f"see {command} --help"
    if command.endswith(" eval run") and message.lower().startswith("no such option"):
        advice += ". Options of `serve` go behind --"
    return _complaint(message[:1].lower() + message[1:], advice, 2)


def _complaint(message: str, advice: str, exit_code: int) -> Complaint:
    return Complaint(line=sentence(message, advice), exit_code=exit_code)


def sentence(message: str, advice: str) -> str:
    """Return a message and what to do about it as one line of printable text."""
    text = message.rstrip(".")
    stop = "" if text.endswith(("?", "!")) else "."
    then = advice[:1].upper() + advice[1:]
    line = " ".join((f"{text}{stop} {then}" if then else text).split())
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in line)


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]
