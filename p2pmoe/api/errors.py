"""Refusals and failures in OpenAI's shape.

    {"error": {"message": ..., "type": ..., "param": field | null, "code": ... | null}}

`ApiRefusal` is the caller's fault and names the field; failures of the engine become
503 (429 if too much is asked for at once, 400 if it can never be held, 500 where trying
again cannot help) or, in mid-stream, an error frame. Where trying again may help,
Retry-After says when.
"""

import math
from collections.abc import Mapping
from http import HTTPStatus

from p2pmoe.backbone.generation import FailureKind, GenerationFailed
from p2pmoe.errors import P2pmoeError, RequestFailed
from p2pmoe.model.errors import CacheFull

__all__ = [
    "ApiRefusal",
    "error_body",
    "failure_body",
    "failure_headers",
    "failure_kind",
    "failure_status",
    "retry_headers",
]

_FINAL = frozenset({FailureKind.ARITHMETIC, FailureKind.INTERNAL})
_CODES = {FailureKind.OVERLOADED: "rate_limit_exceeded"}  # as OpenAI calls it
_MAX_RETRY_S = 3600.0


class ApiRefusal(P2pmoeError):
    """A request that is refused before any work is done for it.

    A status from 500 on says that it is our fault, not the caller's.
    """

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        code: str | None = None,
        status: HTTPStatus = HTTPStatus.BAD_REQUEST,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Keep what is wrong, in which field, and how to say so."""
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status
        self.headers = headers or {}

    def body(self) -> dict[str, object]:
        """Return the JSON body."""
        ours = self.status >= HTTPStatus.INTERNAL_SERVER_ERROR
        kind = "server_error" if ours else "invalid_request_error"
        return error_body(str(self), kind, param=self.param, code=self.code)


def error_body(
    message: str, kind: str, *, param: str | None = None, code: str | None = None
) -> dict[str, object]:
    """Return an error in OpenAI's shape.

    What it quotes of a request may hold lone surrogates, which are no Unicode.
    """
    shown = None if param is None else _unicode(param)
    error = {"message": _unicode(message), "type": kind, "param": shown, "code": code}
    return {"error": error}


def failure_kind(failure: BaseException) -> FailureKind:
    """Return what kind of failure ended a generation; the engine's say it."""
    if isinstance(failure, GenerationFailed):
        return failure.kind
    return FailureKind.INTERNAL


def failure_body(failure: BaseException) -> dict[str, object]:
    """Return the error for a failed generation; nothing internal is told."""
    if isinstance(failure, CacheFull):
        code = "context_length_exceeded"
        return error_body(str(failure), "invalid_request_error", code=code)
    kind = failure_kind(failure)
    known = isinstance(failure, RequestFailed)
    message = str(failure) if known else "an internal error ended this request"
    return error_body(message, kind.value, code=_CODES.get(kind, kind.value))


def failure_status(failure: BaseException) -> HTTPStatus:
    """Return the status for a failure before the first token."""
    if isinstance(failure, CacheFull):
        return HTTPStatus.BAD_REQUEST
    kind = failure_kind(failure)
    if kind in _FINAL:
        return HTTPStatus.INTERNAL_SERVER_ERROR
    if kind is FailureKind.OVERLOADED:
        return HTTPStatus.TOO_MANY_REQUESTS
    return HTTPStatus.SERVICE_UNAVAILABLE


def failure_headers(failure: BaseException) -> dict[str, str]:
    """Return the headers for a failure before the first token."""
    if failure_kind(failure) in _FINAL:
        return {}
    retry_s = failure.retry_s if isinstance(failure, GenerationFailed) else None
    return retry_headers(retry_s)


def retry_headers(retry_s: float | None) -> dict[str, str]:
    """Return the header that says when to come again, in whole seconds from 1 up."""
    seconds = 1.0 if retry_s is None else min(max(retry_s, 1.0), _MAX_RETRY_S)
    return {"retry-after": str(math.ceil(seconds))}


def _unicode(text: str) -> str:
    return text.encode(errors="backslashreplace").decode()
