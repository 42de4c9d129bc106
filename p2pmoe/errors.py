"""The one tree of errors of this package, ours and theirs.

    P2pmoeError                  advice and exit code for people
      ConfigurationError         an option, a file or a folder given to us is wrong
        RamTooSmall              --ram cannot hold what must be in memory
      RequestFailed              one request ends; the service goes on
        RowsFailed               some rows of a step cannot be computed; names them
          ExpertsUnavailable     nobody could serve an expert in time
          NotFinite              an expert's value is not finite here either
        Cancelled                the client left
      BackboneRemoteError        a peer broke a rule; carries the peer
        OutputRefused            a worker's answer is not what was asked for
        VoucherRefused           a voucher does not match our own leaves

Messages are in lower case with the offending value; `advice` says what a person can
do. The command line prints `error: MESSAGE. ADVICE` on one line and exits with
`exit_code`. Areas may add leaves of their own (weights, text) below P2pmoeError.
"""

from collections.abc import Iterable

__all__ = [
    "BackboneRemoteError",
    "Cancelled",
    "ConfigurationError",
    "ExpertsUnavailable",
    "NotFinite",
    "OutputRefused",
    "P2pmoeError",
    "RamTooSmall",
    "RequestFailed",
    "RowsFailed",
    "VoucherRefused",
]


class P2pmoeError(Exception):
    """Any error of this package, with what a person can do about it."""

    advice: str = ""
    exit_code: int = 2

    def __init__(self, message: str, *, advice: str | None = None) -> None:
        """Keep the message; `advice` overrides the class's own."""
        super().__init__(message)
        if advice is not None:
            self.advice = advice


class ConfigurationError(P2pmoeError):
    """An option, a file or a folder that the caller named is wrong."""


class RamTooSmall(ConfigurationError):
    """The memory budget cannot hold what must be in memory."""


class RequestFailed(P2pmoeError):
    """One request ends with this; the service goes on."""

    exit_code = 1


class RowsFailed(RequestFailed):
    """Some rows of a step cannot be computed; the others can, in a step without them.

    `rows` are those of the step, ascending; empty if it is not known which.
    """

    def __init__(
        self, message: str, *, rows: Iterable[int] = (), advice: str | None = None
    ) -> None:
        """Keep the message and the rows."""
        super().__init__(message, advice=advice)
        self.rows = tuple(sorted(set(rows)))


class ExpertsUnavailable(RowsFailed):
    """No holder and no disk could serve an expert before the request's deadline."""

    advice = "wait until workers hold the experts, or serve with --disk fallback"


class NotFinite(RowsFailed):
    """An expert's result is not finite, recomputed here as well."""

    advice = "the model file or the prompt gives non-finite values; check the file"


class Cancelled(RequestFailed):
    """The client left; nothing went wrong."""


class BackboneRemoteError(P2pmoeError):
    """A peer broke a rule; `peer` is its id."""

    def __init__(self, message: str, *, peer: bytes) -> None:
        """Keep the message and the peer's 32-byte id."""
        super().__init__(message)
        self.peer = peer


class OutputRefused(BackboneRemoteError):
    """A worker's answer is not, row for row, what was asked for."""


class VoucherRefused(BackboneRemoteError):
    """A worker's voucher does not match the leaves built here."""
