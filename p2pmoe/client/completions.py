"""Ask a backbone for text, piece by piece.

The HTTP client is httpx; the caller gets each piece of text as it comes and the whole
at the end. Every failure is an ApiError of one line.
"""

import dataclasses
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeAlias

import httpx

from p2pmoe.client.events import StreamEnd, StreamProblem, TextDelta, parse_event
from p2pmoe.errors import P2pmoeError

__all__ = [
    "ApiError",
    "Completion",
    "complete",
    "complete_chat",
    "gather",
    "served_model",
    "text_lines",
]

_CONNECT_TIMEOUT_S = 10.0
_IDLE_TIMEOUT_S = 300.0  # the server sends a comment every 10 s while it works
_MAX_CARD_BYTES = 1 << 20
MAX_LINE_BYTES = 256 << 20  # hashes of a long prompt come in one
_ADVICE = {  # by the refusal's code
    "not_ready": "wait until `p2pmoe serve` says that it is ready",
    "no_chat_template": "have a text completed with `p2pmoe run`",
}


Watch: TypeAlias = Callable[[TextDelta], None]


class ApiError(P2pmoeError):
    """The API refused, failed in mid-stream, or could not be reached."""

    exit_code = 1


def _ignore(_: TextDelta) -> None:
    """Watch nothing."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """The whole answer: text, why it ended, token counts, and how it was served."""

    text: str
    finish_reason: str | None
    usage: Mapping[str, Any]
    extension: Mapping[str, Any]


def complete(
    url: str,
    body: Mapping[str, Any],
    *,
    key: str = "",
    show: Callable[[str], None],
    watch: Watch = _ignore,
) -> Completion:
    """Stream a text completion of `body` from the API at `url`.

    Args:
        url: Where the API listens, such as http://127.0.0.1:8080, with /v1 behind it
            or not; without a scheme, http.
        body: The request's fields, without `stream`.
        key: The API key, if the server asks for one.
        show: Called with each piece of text as it comes.
        watch: Called with each chunk, before `show`.

    Raises:
        ApiError: The API cannot be reached, refuses, fails, or ends without an end.
    """
    call = _Call(url, "/v1/completions", key)
    return _stream(call, body, show, watch)


def complete_chat(
    url: str,
    body: Mapping[str, Any],
    *,
    key: str = "",
    show: Callable[[str], None],
    watch: Watch = _ignore,
) -> Completion:
    """Stream a chat completion; arguments and errors as for `complete`."""
    call = _Call(url, "/v1/chat/completions", key)
    return _stream(call, body, show, watch)


def served_model(url: str, *, key: str = "") -> Mapping[str, Any]:
    """Return the card of the model that is served, of `GET /v1/models`; ApiError."""
    call = _Call(url, "/v1/models", key)
    with _asked(call, "GET", None) as response:
        raw = bytearray()
        for piece in response.iter_bytes():
            raw += piece
            if len(raw) > _MAX_CARD_BYTES:
                raise ApiError("the backbone's list of models is too long")
    try:
        card = json.loads(raw)["data"][0]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ApiError("the backbone's list of models is not one") from error
    return card if isinstance(card, dict) else {}


def gather(
    lines: Iterable[str], show: Callable[[str], None], watch: Watch = _ignore
) -> Completion:
    """Put a stream's lines together into one Completion.

    Raises:
        ApiError: An error frame came, or the stream stopped without an end.
    """
    pieces: list[str] = []
    reason: str | None = None
    usage: Mapping[str, Any] = {}
    extension: Mapping[str, Any] = {}
    ended = False
    for line in lines:
        event = parse_event(line)
        if isinstance(event, StreamProblem):
            raise ApiError(f"the backbone failed: {event.message} ({event.kind})")
        if isinstance(event, StreamEnd):
            ended = True
            break
        if isinstance(event, TextDelta):
            watch(event)
            if event.text:
                pieces.append(event.text)
                show(event.text)
            reason = event.finish_reason or reason
            usage = event.usage or usage
            extension = event.extension or extension
    if not ended and reason is None:
        raise ApiError("the answer stopped before its end: the connection was lost")
    return Completion(
        text="".join(pieces), finish_reason=reason, usage=usage, extension=extension
    )


def text_lines(pieces: Iterable[bytes]) -> Iterator[str]:
    """Yield the lines of a stream that comes in pieces, without their ends.

    Raises:
        ApiError: a line is longer than any that a backbone sends.
    """
    kept = bytearray()
    for piece in pieces:
        *whole, rest = piece.split(b"\n")
        for line in whole:
            kept += line
            yield kept.decode("utf-8", "replace").removesuffix("\r")
            kept.clear()
        kept += rest
        if len(kept) > MAX_LINE_BYTES:
            raise ApiError(f"the backbone sent a line of over {MAX_LINE_BYTES} bytes")
    if kept:
        yield kept.decode("utf-8", "replace").removesuffix("\r")


@dataclasses.dataclass(frozen=True, slots=True)
class _Call:
    """Where a request goes, and with which key."""

    url: str
    path: str
    key: str

    @property
    def base(self) -> str:
        """The address without the path, with a scheme."""
        url = self.url if "://" in self.url else f"http://{self.url}"
        return url.rstrip("/").removesuffix("/v1")


def _stream(
    call: _Call, body: Mapping[str, Any], show: Callable[[str], None], watch: Watch
) -> Completion:
    request = {**body, "stream": True, "stream_options": {"include_usage": True}}
    with _asked(call, "POST", request) as response:
        return gather(text_lines(response.iter_bytes()), show, watch)


@contextmanager
def _asked(call: _Call, method: str, body: object) -> Iterator[httpx.Response]:
    """Open a response of status 200; whatever else happens in it is an ApiError."""
    headers = {"Authorization": f"Bearer {call.key}"} if call.key else {}
    timeout = httpx.Timeout(_IDLE_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
    answers = False
    try:
        with (
            httpx.Client(timeout=timeout, trust_env=False) as client,
            client.stream(
                method, call.base + call.path, json=body, headers=headers
            ) as response,
        ):
            answers = True
            if response.status_code != httpx.codes.OK:
                raise _refusal(response)
            yield response
    except UnicodeEncodeError as error:
        refused = ApiError("the text is not UTF-8")
        refused.exit_code = 2
        raise refused from error
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        if answers:
            raise ApiError(
                "the answer stopped before its end: the backbone or the way to it "
                "was lost"
            ) from error
        unreachable = ApiError(f"no backbone answers at {call.base}: {_why(error)}")
        unreachable.advice = "start one with `p2pmoe serve`, or name its --url"
        raise unreachable from error


def _why(error: Exception) -> str:
    text = re.sub(r"^\[Errno -?\d+\] ", "", str(error)) or type(error).__name__
    return text[:1].lower() + text[1:]


def _refusal(response: httpx.Response) -> ApiError:
    response.read()
    code = None
    try:
        problem = response.json()["error"]
        message, code = problem["message"], problem.get("code")
    except (ValueError, KeyError, TypeError, AttributeError):
        message = response.text[:200]
    refusal = ApiError(f"the backbone refused ({response.status_code}): {message}")
    refusal.advice = _ADVICE.get(code, "") if isinstance(code, str) else ""
    return refusal
