"""Server-sent events on an ASGI connection, and JSON bodies.

- The status line waits for the first token, but not longer than `COMMIT_S`: then it is
  200, so that no proxy gives up on a long prompt, and a failure becomes a frame.
- While a stream is silent, a comment goes out every `PING_S`.
- A lane generates no faster than its client reads; a client that makes it wait for
  `PATIENCE_S` in all loses it (fault B29).
"""

import json
from collections.abc import Mapping
from http import HTTPStatus

import trio
from starlette.types import Message, Send

from p2pmoe.api.errors import (
    failure_body,
    failure_headers,
    failure_kind,
    failure_status,
)

__all__ = [
    "COMMIT_S",
    "PATIENCE_S",
    "PING_S",
    "ClientTooSlow",
    "EventStream",
    "send_failure",
    "send_json",
]

PING_S = 10.0
COMMIT_S = 60.0
PATIENCE_S = 20.0

_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))

_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"connection", b"close"),
)


class ClientTooSlow(Exception):
    """A client that takes so little that others wait: its connection is closed."""


class EventStream:
    """One stream; frames and comments never mix, whoever sends them."""

    def __init__(self, send: Send) -> None:
        """Send nothing yet."""
        self._send = send
        self._lock = trio.Lock()
        self._started = False
        self._sent_at = trio.current_time()
        self._patience_s = PATIENCE_S

    async def frame(self, body: Mapping[str, object]) -> None:
        """Send one event, and the status line before the first."""
        async with self._lock:
            await self._start()
            await self._write(f"data: {_compact(body)}\n\n")

    async def done(self) -> None:
        """End a complete answer."""
        async with self._lock:
            await self._start()
            await self._write("data: [DONE]\n\n", more=False)

    def outcome_of(self, failure: BaseException) -> str:
        """Return how a failure will look to the client, for the counters."""
        if self._started:
            return failure_kind(failure).value
        return str(failure_status(failure).value)

    async def fail(self, failure: BaseException) -> None:
        """End with an error: a status before the first frame, a frame after it."""
        async with self._lock:
            if self._started:
                body = failure_body(failure)
                await self._write(f"data: {_compact(body)}\n\n", more=False)
            else:
                await send_failure(self._send, failure)

    async def keep_alive(self) -> None:
        """Send a comment whenever nothing else went out for `PING_S`."""
        opened = trio.current_time()
        while True:
            due = self._sent_at + PING_S if self._started else opened + COMMIT_S
            now = trio.current_time()
            if now < due:
                await trio.sleep(min(due - now, PING_S))
                continue
            async with self._lock:
                if self._sent_at <= now - PING_S:
                    await self._start()
                    await self._write(": ping\n\n")

    async def _start(self) -> None:
        if self._started:
            return
        self._started = True
        status = HTTPStatus.OK.value
        headers = list(_STREAM_HEADERS)
        await self._put(
            {"type": "http.response.start", "status": status, "headers": headers}
        )

    async def _write(self, text: str, *, more: bool = True) -> None:
        self._sent_at = trio.current_time()
        await self._put(
            {"type": "http.response.body", "body": text.encode(), "more_body": more}
        )

    async def _put(self, message: Message) -> None:
        began = trio.current_time()
        try:
            with trio.fail_after(max(0.0, self._patience_s)):
                await self._send(message)
        except trio.TooSlowError as error:
            raise ClientTooSlow(f"waited {PATIENCE_S} s for the client") from error
        self._patience_s -= trio.current_time() - began


async def send_failure(send: Send, failure: BaseException) -> None:
    """Answer with a failure's status; say when to come again, where that may help."""
    await send_json(
        send, failure_status(failure), failure_body(failure), failure_headers(failure)
    )


async def send_json(
    send: Send,
    status: HTTPStatus,
    body: Mapping[str, object],
    headers: Mapping[str, str] | None = None,
) -> None:
    """Send a whole answer."""
    content = _compact(body).encode()
    lines = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
    ]
    lines += [(k.encode(), v.encode()) for k, v in (headers or {}).items()]
    await send(
        {"type": "http.response.start", "status": status.value, "headers": lines}
    )
    await send({"type": "http.response.body", "body": content, "more_body": False})


def _compact(body: Mapping[str, object]) -> str:
    return _ENCODER.encode(body)
