"""Requests from the API, one after another onto the lanes; the trio side of decoding.

Rules: at most `n_lanes` requests decode at a time, others wait in the order they came
and at most `max_queued_requests` of them; each request has its own context, so leaving
it cancels that request only (fault B20), within one layer; a request that failed ends
with `GenerationFailed`, never with a short answer (fault B23). A lane is freed when its
thread is done with the request, not before.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Self

import trio

from mobile_worker.arithmetic.errors import ArithmeticRefused
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.generation import (
    FailureKind,
    FinishReason,
    GenerationEnd,
    GenerationFailed,
    GenerationRequest,
    GenerationStep,
    Timings,
    TokenLogprobs,
    Usage,
)
from p2pmoe.backbone.lane import DeadlinePassed, LaneJob, decode
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.errors import (
    Cancelled,
    ExpertsUnavailable,
    NotFinite,
    P2pmoeError,
)
from p2pmoe.model.errors import CombineRefused
from p2pmoe.model.experts import ExpertCaller
from p2pmoe.model.model import Model
from p2pmoe.weights.errors import ModelFileError

__all__ = ["Engine", "EngineParts", "EngineRun", "failure_of", "open_engine"]

log = logging.getLogger("p2pmoe.engine")

_KINDS: tuple[tuple[type[BaseException], FailureKind], ...] = (
    (ExpertsUnavailable, FailureKind.UPSTREAM_LOST),
    (DeadlinePassed, FailureKind.DEADLINE),
    (NotFinite, FailureKind.ARITHMETIC),
    (CombineRefused, FailureKind.ARITHMETIC),
    (ArithmeticRefused, FailureKind.ARITHMETIC),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineParts:
    """What the engine works with; `experts` makes a step's caller of experts."""

    model: Model
    experts: Callable[[StepTrace, float], ExpertCaller]
    cancel: Callable[[StepTrace], None]
    counters: BackboneCounters
    monotonic: Callable[[], float]
    n_lanes: int = 2
    max_queued: int = 64
    deadline_s: float = 600.0
    chunk_tokens: int = 64


class EngineRun:
    """A request in flight: an async iterator of steps."""

    def __init__(self, request: GenerationRequest) -> None:
        """Begin without tokens."""
        self.request = request
        self.trace = RequestTrace()
        self.step: StepTrace | None = None  # the last one begun
        self.finish_reason: FinishReason | None = None
        self.n_tokens = 0
        self._send, self._receive = trio.open_memory_channel[int](request.max_tokens)
        self._failure: GenerationFailed | None = None

    def __aiter__(self) -> Self:
        """Iterate over accepted tokens; for one consumer."""
        return self

    async def __anext__(self) -> GenerationStep:
        """Return the next token; `GenerationFailed` if it cannot complete."""
        try:
            token = await self._receive.receive()
        except trio.EndOfChannel:
            if self._failure is not None:
                raise self._failure from None
            raise StopAsyncIteration from None
        return GenerationStep(tokens=(token,))

    def end(self) -> GenerationEnd:
        """Return the figures so far."""
        trace = self.trace
        return GenerationEnd(
            finish_reason=self.finish_reason,
            usage=Usage(
                prompt_tokens=len(self.request.prompt_ids),
                completion_tokens=self.n_tokens,
            ),
            timings=Timings(
                queued_s=trace.queued_s,
                prefill_s=trace.prefill_s,
                decode_s=trace.decode_s,
                calls=trace.tier_calls(),
                round_trips=trace.decode_trips,
                prefill_round_trips=trace.prefill_trips,
                bytes_up=trace.bytes_up,
                bytes_down=trace.bytes_down,
                failovers=trace.failovers,
            ),
        )

    def prompt_logprobs(self) -> tuple[TokenLogprobs, ...]:
        """Return one item for each token of the prompt, if they were asked for."""
        return ()

    def begin(self, step: StepTrace) -> None:
        """Note the step that runs (called on the decode thread)."""
        self.step = step

    def push(self, token: int) -> None:
        """Take a token from the decode thread (called on the trio thread)."""
        if not self.trace.cancelled:
            self.n_tokens += 1
            self._send.send_nowait(token)  # has room for max_tokens

    def finish(
        self, reason: FinishReason | None, failure: GenerationFailed | None
    ) -> None:
        """End the iteration."""
        self.finish_reason = reason
        self._failure = failure
        self._send.close()


class Engine:
    """The `Generator` of this backbone; see `open_engine`."""

    def __init__(self, parts: EngineParts, nursery: trio.Nursery) -> None:
        """Begin with all lanes free; callers use `open_engine`."""
        self._parts = parts
        self._nursery = nursery
        self._lanes = trio.Semaphore(parts.n_lanes)
        self._threads = trio.CapacityLimiter(parts.n_lanes)
        self._token = trio.lowlevel.current_trio_token()
        self._runs: set[EngineRun] = set()
        self._left = trio.Event()
        self.n_waiting = 0

    @asynccontextmanager
    async def generate(self, request: GenerationRequest) -> AsyncIterator[EngineRun]:
        """Admit a request; leaving the context cancels what is left of it.

        Raises:
            GenerationFailed: OVERLOADED, if too many wait already.
        """
        run = EngineRun(request)
        await self._admit(run)
        self._runs.add(run)
        self._nursery.start_soon(self._run, run)
        try:
            yield run
        finally:
            self._cancel(run)

    @property
    def n_active(self) -> int:
        """Requests that hold a lane."""
        return len(self._runs)

    async def idle(self) -> None:
        """Wait until no request holds a lane."""
        while self._runs:
            await self._left.wait()

    def cancel_all(self) -> None:
        """Cancel every request."""
        for run in list(self._runs):
            self._cancel(run)

    async def _admit(self, run: EngineRun) -> None:
        parts = self._parts
        if self._lanes.value == 0 and self.n_waiting >= parts.max_queued:
            raise GenerationFailed(
                FailureKind.OVERLOADED, f"{self.n_waiting} requests wait already"
            )
        self.n_waiting += 1
        start = parts.monotonic()
        try:
            await self._lanes.acquire()
        finally:
            self.n_waiting -= 1
        run.trace.queued_s = parts.monotonic() - start

    def _cancel(self, run: EngineRun) -> None:
        if run in self._runs:
            run.trace.cancelled = True
            if run.step is not None:
                self._parts.cancel(run.step)

    async def _run(self, run: EngineRun) -> None:
        """Decode one request on a thread of its own; the root of its task."""
        parts = self._parts
        deadline = parts.monotonic() + parts.deadline_s
        job = LaneJob(
            model=parts.model,
            experts=parts.experts,
            request=run.request,
            trace=run.trace,
            began=run.begin,
            emit=lambda token: self._token.run_sync_soon(run.push, token),
            monotonic=parts.monotonic,
            deadline=deadline,
            chunk_tokens=parts.chunk_tokens,
        )
        reason, outcome = None, "failed"
        failure: GenerationFailed | None = GenerationFailed(
            FailureKind.INTERNAL, "the backbone ends"
        )
        try:
            reason = await trio.to_thread.run_sync(decode, job, limiter=self._threads)
            failure, outcome = None, reason.value
        except Cancelled as error:
            failure, outcome = failure_of(error), "cancelled"
        except Exception as error:  # noqa: BLE001 - the root of the request's task
            failure = failure_of(error)
        finally:
            # The thread's tokens came through `run_sync_soon`, all before its result.
            self._runs.discard(run)
            self._lanes.release()
            self._left.set()
            self._left = trio.Event()
            tokens = (len(run.request.prompt_ids), run.n_tokens)
            parts.counters.finished(run.trace, outcome, tokens)
            step = run.step
            if failure is not None and step is not None and not step.cancelled:
                parts.cancel(step)  # what is still under way for it
            run.finish(reason, failure)


@asynccontextmanager
async def open_engine(parts: EngineParts) -> AsyncIterator[Engine]:
    """Run an engine; leaving the context cancels all requests and waits for lanes."""
    async with trio.open_nursery() as nursery:
        engine = Engine(parts, nursery)
        try:
            yield engine
        finally:
            engine.cancel_all()


def failure_of(error: BaseException) -> GenerationFailed:
    """Return what the client may know of an error; the rest goes to the log."""
    for kind_of_error, kind in _KINDS:
        if isinstance(error, kind_of_error):
            return GenerationFailed(kind, str(error))
    if isinstance(error, Cancelled):
        return GenerationFailed(FailureKind.INTERNAL, "cancelled")
    if isinstance(error, P2pmoeError):
        log.error("a request failed: %s", error)
        if isinstance(error, ModelFileError):  # whose message has a path
            reason = "the model file has lost weights that every token needs"
            return GenerationFailed(FailureKind.UPSTREAM_LOST, reason)
    else:
        log.error("a request failed", exc_info=error)
    return GenerationFailed(FailureKind.INTERNAL, "the backbone failed")
