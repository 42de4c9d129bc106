"""Answering a completion over ASGI: whole or streamed, one cancel scope a request.

- A client that leaves cancels its own request and no other (fault B20).
- A failure before the first token is a JSON error with its status. After it, it is a
  frame `data: {"error": ...}` and the end of the connection; `[DONE]` and a finish
  reason follow only a complete answer (fault B23).
- While a stream is silent, a comment goes out every `PING_S`. The status line waits
  for the first token, but not longer than `COMMIT_S`: then it is 200, so that no proxy
  gives up on a long prompt, and a failure becomes a frame.
"""

import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

import trio
from starlette.types import Message, Receive, Scope, Send

from p2pmoe.api.bodies import Answer, Bodies
from p2pmoe.api.errors import failure_body, failure_kind, failure_status
from p2pmoe.api.metrics import ApiCounters
from p2pmoe.api.preparation import Prepared
from p2pmoe.api.running import Running
from p2pmoe.backbone.generation import Generator
from p2pmoe.text.tokenizer import Tokenizer

__all__ = [
    "COMMIT_S",
    "PATIENCE_S",
    "PING_S",
    "ClientTooSlow",
    "CompletionAnswer",
    "CompletionParts",
]

PING_S = 10.0
COMMIT_S = 60.0
PATIENCE_S = 20.0

log = logging.getLogger("p2pmoe.api")

_STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
    (b"connection", b"close"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionParts:
    """What answering needs besides the request."""

    generator: Generator
    tokenizer: Tokenizer
    counters: ApiCounters
    route: str


class CompletionAnswer:
    """An ASGI response that generates while it is sent."""

    def __init__(
        self,
        parts: CompletionParts,
        prepared: Prepared,
        bodies: Bodies,
        *,
        stream: bool,
    ) -> None:
        """Keep what is to be done; nothing starts before the call."""
        self._parts = parts
        self._prepared = prepared
        self._bodies = bodies
        self._stream = stream
        self._outcome = "cancelled"
        self._ending = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer; returns early and silently if the client leaves."""
        del scope
        counters = self._parts.counters
        counters.active += 1
        try:
            # Its connection, which has not had its end, is closed by the server.
            async with _ending_quietly(), trio.open_nursery() as nursery:
                nursery.start_soon(self._cancel_when_gone, receive, nursery)
                await self._answer(self._noting_the_end(send), nursery)
                nursery.cancel_scope.cancel()
        finally:
            counters.active -= 1
            counters.answered(self._parts.route, self._outcome)

    def _noting_the_end(self, send: Send) -> Send:
        async def send_and_note(message: Message) -> None:
            if message["type"] == "http.response.body":
                self._ending = not message.get("more_body", False)
            await send(message)

        return send_and_note

    async def _cancel_when_gone(self, receive: Receive, nursery: trio.Nursery) -> None:
        """Cancel if the client leaves.

        The end of an answer looks like that too, while the server is still closing the
        connection of a client that asked for it: that is not to be cut off.
        """
        message: Message = {"type": ""}
        while message["type"] != "http.disconnect":
            message = await receive()
        if not self._ending:
            nursery.cancel_scope.cancel()

    async def _answer(self, send: Send, nursery: trio.Nursery) -> None:
        if not self._stream:
            await self._send_whole(send)
            return
        events = _EventStream(send)
        nursery.start_soon(events.keep_alive)
        await self._send_stream(events)

    async def _send_whole(self, send: Send) -> None:
        generation = self._prepared.generation
        parts = self._parts
        try:
            async with parts.generator.generate(generation) as run:
                running = Running(run, self._prepared, parts.tokenizer)
                async with aclosing(running.pieces()) as pieces:
                    text = "".join([piece async for piece in pieces])
                answer = running.answer()
        except Exception as failure:  # noqa: BLE001 - root of the request's task
            _note(failure)
            status = failure_status(failure)
            self._outcome = str(status.value)
            await _send_json(send, status, failure_body(failure))
            return
        self._complete(answer)
        await _send_json(send, HTTPStatus.OK, self._bodies.whole(text, answer))

    async def _send_stream(self, events: "_EventStream") -> None:
        parts = self._parts
        bodies = self._bodies
        try:
            async with parts.generator.generate(self._prepared.generation) as run:
                running = Running(run, self._prepared, parts.tokenizer)
                first = True
                async with aclosing(running.pieces()) as pieces:
                    async for piece in pieces:
                        await events.frame(bodies.piece(piece, first=first))
                        first = False
                answer = running.answer()
        except ClientTooSlow:
            self._outcome = "slow_consumer"
            raise
        except Exception as failure:  # noqa: BLE001 - root of the request's task
            _note(failure)
            self._outcome = events.outcome_of(failure)
            await events.fail(failure)
            return
        self._complete(answer)
        await events.frame(bodies.last(answer))
        if bodies.include_usage:
            await events.frame(bodies.usage(answer))
        await events.done()

    def _complete(self, answer: Answer) -> None:
        """Count an answer before its end is sent: the client may leave upon it."""
        self._outcome = str(HTTPStatus.OK.value)
        self._parts.counters.delivered(answer.n_prompt, len(answer.tokens))


class ClientTooSlow(Exception):
    """A client that takes so little that others wait: its connection is closed."""


@asynccontextmanager
async def _ending_quietly() -> AsyncIterator[None]:
    try:
        yield
    except* ClientTooSlow as slow:
        log.warning("a stream ends: %s", slow.exceptions[0])


class _EventStream:
    """Server-sent events on an ASGI connection; frames and comments never mix.

    A lane generates no faster than its client reads; a client that makes it wait for
    `PATIENCE_S` in all loses it (faults B29).
    """

    def __init__(self, send: Send) -> None:
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
        body = failure_body(failure)
        async with self._lock:
            if self._started:
                await self._write(f"data: {_compact(body)}\n\n", more=False)
            else:
                await _send_json(self._send, failure_status(failure), body)

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


async def _send_json(
    send: Send, status: HTTPStatus, body: Mapping[str, object]
) -> None:
    content = _compact(body).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
    ]
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        headers.append((b"retry-after", b"1"))
    await send(
        {"type": "http.response.start", "status": status.value, "headers": headers}
    )
    await send({"type": "http.response.body", "body": content, "more_body": False})


def _compact(body: Mapping[str, object]) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _note(failure: BaseException) -> None:
    kind = failure_kind(failure)
    internal = kind.value == "internal_error"
    log.warning(
        "request failed: %s", kind.value, exc_info=failure if internal else None
    )
