"""The API as an evaluation sees it: ask, stream, and what the server says it serves.

Rules: bodies are bounded; a server that is busy (429, 503) is asked again a few times,
after as long as it says; a request that is refused or fails is an `AnswerRefused`, and
the evaluation goes on; a server that cannot be reached or is lost is an `ApiError` that
ends it. The key is sent and never shown.
"""

import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

import httpx
import trio

from p2pmoe.client.completions import ApiError
from p2pmoe.client.events import StreamEnd, StreamProblem, TextDelta, parse_event
from p2pmoe.evaluate.errors import MeasurementFailed
from p2pmoe.evaluate.latency import StreamTimes

__all__ = [
    "AnswerRefused",
    "HttpApi",
    "ModelApi",
    "ServedCard",
    "Streamed",
    "open_api",
]

_T = TypeVar("_T")

MAX_BODY_BYTES: Final = 64 << 20
_MAX_TEXT: Final = 1 << 20
_TRIES: Final = 6
_MOST_WAIT_S: Final = 30.0
_BUSY: Final = frozenset({429, 503})
_CONNECT_TIMEOUT_S: Final = 10.0
_IDLE_TIMEOUT_S: Final = 900.0


class AnswerRefused(MeasurementFailed):
    """The server refused one request, or failed at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed:
    """A whole streamed answer; `tokens` are its ids where the server tells them."""

    text: str
    times: StreamTimes
    finish_reason: str | None = None
    tokens: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCard:
    """What `/v1/models` says of the model; `configuration` None if it is not told."""

    name: str
    configuration: Mapping[str, Any] | None = field(default=None)


class ModelApi(Protocol):
    """What measuring needs of a server; paths begin with /v1."""

    async def ask(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the whole answer to a request that does not stream."""
        ...

    async def stream(self, path: str, body: Mapping[str, Any]) -> Streamed:
        """Return the answer to a request that streams, with the times of its pieces."""
        ...


@asynccontextmanager
async def open_api(url: str, key: str = "") -> AsyncIterator["HttpApi"]:
    """Make a client of the API at `url`, with /v1 behind it or not."""
    base = (url if "://" in url else f"http://{url}").rstrip("/").removesuffix("/v1")
    if httpx.URL(base).scheme not in {"http", "https"} or not httpx.URL(base).host:
        raise ApiError(f"--url {url!r} is no address of a backbone")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    timeout = httpx.Timeout(_IDLE_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
    async with httpx.AsyncClient(
        base_url=base, headers=headers, timeout=timeout, trust_env=False
    ) as client:
        yield HttpApi(client)


class HttpApi:
    """The API over HTTP."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        """Ask with `client`, whose base address is the server's."""
        self._client = client

    async def ready(self) -> str:
        """Return "" when requests are taken, else how far the server has come.

        Raises ApiError if it cannot be reached.
        """
        with _lost_is_an_api_error():
            async with self._client.stream("GET", "/readyz") as answer:
                raw = await _bounded(answer)
        if answer.status_code == httpx.codes.OK:
            return ""
        try:
            body = json.loads(raw)
            return str(body["detail"] or body["phase"])[:200]
        except (ValueError, KeyError, TypeError, RecursionError):
            return f"status {answer.status_code}"

    async def card(self) -> ServedCard:
        """Return what the server says of its one model; ApiError if it says nothing."""
        document = await self._request("GET", "/v1/models", None)
        try:
            card = document["data"][0]
            name, own = str(card["id"])[:200], card.get("p2pmoe") or {}
            configuration = own.get("configuration")
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ApiError("the server lists no model") from error
        known = configuration if isinstance(configuration, Mapping) else None
        return ServedCard(name=name, configuration=known)

    async def ask(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the whole answer; see `ModelApi`."""
        return await self._request("POST", path, body)

    async def stream(self, path: str, body: Mapping[str, Any]) -> Streamed:
        """Return the answer, piece by piece timed; see `ModelApi`."""
        asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
        return await self._answer("POST", path, asked, _gather)

    async def _request(
        self, method: str, path: str, body: Mapping[str, Any] | None
    ) -> Mapping[str, Any]:
        async def take(response: httpx.Response, _: float) -> Mapping[str, Any]:
            return _object(await _bounded(response))

        return await self._answer(method, path, body, take)

    async def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        take: Callable[[httpx.Response, float], Awaitable[_T]],
    ) -> _T:
        """Ask until the server is not busy; `take` reads what is answered with 200."""
        attempt = 0
        while True:
            began = trio.current_time()
            with _lost_is_an_api_error():
                async with self._client.stream(method, path, json=body) as response:
                    if response.status_code == httpx.codes.OK:
                        return await take(response, began)
                    raw = await _bounded(response)
            attempt += 1
            if response.status_code not in _BUSY or attempt == _TRIES:
                raise _refusal(response.status_code, raw)
            await trio.sleep(_wait_s(response, attempt))


@contextmanager
def _lost_is_an_api_error() -> Iterator[None]:
    try:
        yield
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = str(error) or type(error).__name__
        raise ApiError(
            f"the backbone cannot be reached, or was lost: {reason[:200]}",
            advice="start one with `p2pmoe serve`, or name its --url",
        ) from error


async def _bounded(response: httpx.Response) -> bytes:
    whole = bytearray()

    def take(part: bytes) -> None:
        whole.extend(part)
        if len(whole) > MAX_BODY_BYTES:
            raise ApiError(f"an answer is larger than {MAX_BODY_BYTES} bytes")

    await _each(response, take)
    return bytes(whole)


async def _each(response: httpx.Response, take: Callable[[bytes], None]) -> None:
    """Hand each part of a body to `take`; what that raises ends the reading.

    It ends by cancelling the read below: a loop that is left would leave the client's
    generators to the garbage collector.
    """
    failed: list[ApiError] = []
    with trio.CancelScope() as scope:
        async for part in response.aiter_bytes():
            try:
                if not failed:
                    take(part)
            except ApiError as error:
                failed.append(error)
                scope.cancel()
    if failed:
        raise failed[0]


def _object(raw: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise ApiError("an answer of the server is not JSON") from error
    if not isinstance(document, dict):
        raise ApiError("an answer of the server is no JSON object")
    return document


def _refusal(status: int, raw: bytes) -> AnswerRefused | ApiError:
    try:
        problem = json.loads(raw)["error"]
        message = str(problem["message"])[:500]
    except (ValueError, KeyError, TypeError, RecursionError):
        message = raw[:200].decode("utf-8", "replace")
    if status in {401, 403}:
        return ApiError(f"the backbone refused ({status}): {message}")
    return AnswerRefused(f"refused ({status}): {message}")


def _wait_s(response: httpx.Response, attempt: int) -> float:
    told = response.headers.get("retry-after", "")[:9]
    wanted = float(told) if told.isascii() and told.isdecimal() else 0.5 * attempt
    return min(wanted, _MOST_WAIT_S)


async def _gather(response: httpx.Response, began: float) -> Streamed:
    """Put a stream's events together, with the time at which each piece came.

    It is read to its end, also behind an error frame: the client then has nothing
    half-read.
    """
    gathering = _Gathering(began)
    kept = bytearray()

    def take(part: bytes) -> None:
        *whole, rest = part.split(b"\n")
        for end in whole:
            kept.extend(end)
            gathering.take(kept.decode("utf-8", "replace").removesuffix("\r"))
            kept.clear()
        kept.extend(rest)
        gathering.bound(len(kept))

    await _each(response, take)
    gathering.take(kept.decode("utf-8", "replace"))
    return gathering.end()


class _Gathering:
    """A stream as far as it has come."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._texts: list[str] = []
        self._times: list[float] = []
        self._last = TextDelta(text="")
        self._problem: StreamProblem | None = None
        self._ended = False
        self._n_characters = 0

    def take(self, line: str) -> None:
        self._n_characters += len(line)
        self.bound()
        event = parse_event(line)
        if isinstance(event, StreamProblem):
            self._problem = self._problem or event
        elif isinstance(event, StreamEnd):
            self._ended = True
        elif isinstance(event, TextDelta):
            if event.text:
                self._texts.append(event.text)
                self._times.append(trio.current_time() - self._began)
            self._last = _merged(self._last, event)

    def bound(self, more: int = 0) -> None:
        """Refuse a stream that is too long with what is to come; ApiError."""
        if self._n_characters + more > MAX_BODY_BYTES:
            raise ApiError(f"an answer is larger than {MAX_BODY_BYTES} bytes")

    def end(self) -> Streamed:
        problem = self._problem
        if problem is not None:
            raise AnswerRefused(f"failed: {problem.message[:500]} ({problem.kind})")
        if not self._ended and self._last.finish_reason is None:
            raise ApiError("an answer stopped before its end: the connection was lost")
        return _streamed("".join(self._texts), tuple(self._times), self._last)


def _merged(last: TextDelta, event: TextDelta) -> TextDelta:
    return TextDelta(
        text="",
        finish_reason=event.finish_reason or last.finish_reason,
        usage=event.usage or last.usage,
        extension=event.extension or last.extension,
    )


def _streamed(text: str, times: tuple[float, ...], last: TextDelta) -> Streamed:
    told = (last.extension or {}).get("tokens")
    tokens = told if isinstance(told, list) else []
    if not all(type(token) is int for token in tokens):
        tokens = []
    usage = last.usage if isinstance(last.usage, Mapping) else {}
    counted = usage.get("completion_tokens")
    return Streamed(
        text=text[:_MAX_TEXT],
        times=StreamTimes(
            pieces_s=times,
            n_tokens=counted if type(counted) is int else len(times),
        ),
        finish_reason=last.finish_reason,
        tokens=tuple(tokens),
    )
