"""Answering a completion over ASGI: whole or streamed, one cancel scope a request.

- A client that leaves cancels its own request and no other (fault B20).
- A failure before the first token is a JSON error with its status. After it, it is a
  frame `data: {"error": ...}` and the end of the connection; `[DONE]` follows only a
  complete answer (fault B23).
- Choices run at once, so many of them, and their chunks mix in a stream. The first of a
  prompt goes before the others, which then begin with its keys and values instead of
  computing the prompt again. If one fails, the request fails.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus

import trio
from starlette.types import Message, Receive, Scope, Send

from p2pmoe.api.answers import Answer, ChoiceEnd, Piece, joined
from p2pmoe.api.bodies import Bodies
from p2pmoe.api.errors import failure_kind, failure_status
from p2pmoe.api.event_stream import ClientTooSlow, EventStream, send_failure, send_json
from p2pmoe.api.metrics import ApiCounters
from p2pmoe.api.preparation import Prepared, PreparedChoice
from p2pmoe.api.running import Running
from p2pmoe.backbone.generation import FailureKind, Generator
from p2pmoe.text.tokenizer import Tokenizer

__all__ = ["CompletionAnswer", "CompletionParts"]

_MAX_AT_ONCE = 8  # choices of one request; the others wait for these

log = logging.getLogger("p2pmoe.api")

Take = Callable[[int, Piece], Awaitable[None]]


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
        self._ends: dict[int, ChoiceEnd] = {}

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
        events = EventStream(send)
        nursery.start_soon(events.keep_alive)
        await self._send_stream(events)

    async def _send_whole(self, send: Send) -> None:
        pieces: list[list[Piece]] = [[] for _ in self._prepared.choices]

        async def take(index: int, piece: Piece) -> None:
            pieces[index].append(piece)

        failure = await self._generate(take)
        if failure is not None:
            self._outcome = str(failure_status(failure).value)
            await send_failure(send, failure)
            return
        body = self._bodies.whole([joined(each) for each in pieces], self._whole())
        await send_json(send, HTTPStatus.OK, body)

    async def _send_stream(self, events: EventStream) -> None:
        bodies = self._bodies
        n_calls: dict[int, int] = {}

        async def take(index: int, piece: Piece) -> None:
            before = n_calls.get(index)
            n_calls[index] = (before or 0) + len(piece.calls)
            await events.frame(
                bodies.piece(index, piece, first=before is None, n_calls=before or 0)
            )

        async def take_end(end: ChoiceEnd) -> None:
            await events.frame(bodies.last(end))

        failure = await self._generate(take, take_end)
        if isinstance(failure, ClientTooSlow):
            self._outcome = "slow_consumer"
            raise failure
        if failure is not None:
            self._outcome = events.outcome_of(failure)
            await events.fail(failure)
            return
        if bodies.include_usage:
            await events.frame(bodies.usage(self._whole()))
        await events.done()

    async def _generate(
        self,
        take: Take,
        take_end: Callable[[ChoiceEnd], Awaitable[None]] | None = None,
    ) -> Exception | None:
        """Run all choices; return the first failure, which ends them all."""
        failures: list[Exception] = []
        slots = trio.Semaphore(_MAX_AT_ONCE)
        led = {choice.prompt: trio.Event() for choice in self._prepared.choices}
        leading = {choice.prompt: choice for choice in self._prepared.choices[::-1]}
        async with trio.open_nursery() as nursery:

            async def take_and_lead(index: int, piece: Piece) -> None:
                led[self._prepared.choices[index].prompt].set()
                await take(index, piece)

            async def run(choice: PreparedChoice) -> None:
                try:
                    if leading[choice.prompt] is not choice:
                        await led[choice.prompt].wait()
                    async with slots:
                        end = await self._run(choice, take_and_lead)
                    led[choice.prompt].set()
                    self._complete(end)
                    if take_end is not None:
                        await take_end(end)
                except Exception as failure:  # noqa: BLE001 - root of the choice's task
                    failures.append(failure)
                    nursery.cancel_scope.cancel()

            for choice in self._prepared.choices:
                nursery.start_soon(run, choice)
        if not failures:
            return None
        _note(failures[0])
        return failures[0]

    async def _run(self, choice: PreparedChoice, take: Take) -> ChoiceEnd:
        parts = self._parts
        async with parts.generator.generate(choice.generation) as run:
            running = Running(run, choice, self._prepared, parts.tokenizer)
            async with aclosing(running.pieces()) as pieces:
                async for piece in pieces:
                    await take(choice.index, piece)
            return running.end()

    def _complete(self, end: ChoiceEnd) -> None:
        """Count an answer before its end is sent: the client may leave upon it."""
        self._ends[end.index] = end
        if len(self._ends) == len(self._prepared.choices):
            answer = self._whole()
            self._outcome = str(HTTPStatus.OK.value)
            self._parts.counters.delivered(answer.n_prompt, answer.n_tokens)

    def _whole(self) -> Answer:
        ends = [self._ends[choice.index] for choice in self._prepared.choices]
        return Answer(choices=ends, n_prompt=self._prepared.n_prompt)


@asynccontextmanager
async def _ending_quietly() -> AsyncIterator[None]:
    try:
        yield
    except* ClientTooSlow as slow:
        log.warning("a stream ends: %s", slow.exceptions[0])


def _note(failure: BaseException) -> None:
    if isinstance(failure, ClientTooSlow):
        return
    kind = failure_kind(failure)
    internal = kind is FailureKind.INTERNAL
    log.warning(
        "request failed: %s", kind.value, exc_info=failure if internal else None
    )
