"""Requests from the API into the schedule, and what comes of them back: the trio side.

Rules: each request has its own context, so leaving it cancels that request only (fault
B20): at once while it waits, else within the step under way. A request that failed ends
with `GenerationFailed`, or with another `RequestFailed` that says why it cannot be run
here, never with a short answer (fault B23). What the model raises ends requests, never
the engine. Lanes are threads that live as long as the engine does (lane.py); they tell
what happened once a step, and nothing here waits for their lock longer than the
schedule computes. A reader that is slow delays nobody: its tokens wait in a channel
that holds as many as the request may have.
"""

import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
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
    TokenLogprobs,
)
from p2pmoe.backbone.lane import Lane, LaneParts
from p2pmoe.backbone.lane_events import (
    Admitted,
    DeadlinePassed,
    Drawn,
    Event,
    StepFailed,
)
from p2pmoe.backbone.run_figures import end_of
from p2pmoe.backbone.scheduling.schedule import Schedule, ScheduleLimits
from p2pmoe.backbone.scheduling.sequence import SequenceState
from p2pmoe.backbone.speculation.speculation import SpeculationMaker
from p2pmoe.backbone.trace import RequestTrace, StepTrace
from p2pmoe.config import MissingPolicy
from p2pmoe.errors import (
    Cancelled,
    ExpertsUnavailable,
    NotFinite,
    P2pmoeError,
    RequestFailed,
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
    """What the engine works with; `experts` makes a step's caller, see `LaneParts`.

    `cancel` stops what is under way for a step; it is called on the trio thread.
    `kv_bytes` None means a context of `n_context` for each lane, and `n_context` None
    the model's own. `deadline_s` counts from a request's submission.
    """

    model: Model
    experts: Callable[[StepTrace, float, float | None], ExpertCaller]
    cancel: Callable[[StepTrace], None]
    counters: BackboneCounters
    monotonic: Callable[[], float]
    n_lanes: int = 1
    max_batch: int = 16
    max_queued: int = 64
    deadline_s: float = 600.0
    chunk_tokens: int = 64
    prefill_steps: int = 1  # chunks of prompts under way at once on a lane
    kv_bytes: int | None = None
    n_context: int | None = None
    max_cold_experts: int | None = None
    park_after_s: float = 1.0
    missing: MissingPolicy = MissingPolicy.FAIL
    speculation: SpeculationMaker | None = None  # called for each lane

    def limits(self) -> ScheduleLimits:
        """Return the bounds of the schedule."""
        description = self.model.description
        n_context = self.n_context or description.n_context
        token_bytes = description.kv_bytes_per_token
        whole = self.n_lanes * n_context * token_bytes
        return ScheduleLimits(
            kv_bytes=whole if self.kv_bytes is None else self.kv_bytes,
            token_bytes=token_bytes,
            n_context=n_context,
            n_lanes=self.n_lanes,
            max_batch=self.max_batch,
            chunk_tokens=self.chunk_tokens,
            prefill_steps=self.prefill_steps,
            max_waiting=self.max_queued,
            max_cold_experts=self.max_cold_experts,
            park_after_s=self.park_after_s,
        )


class EngineRun:
    """A request in flight: an async iterator of steps."""

    def __init__(self, sequence: SequenceState) -> None:
        """Begin without tokens."""
        self.sequence = sequence
        self.finish_reason: FinishReason | None = None
        self.n_tokens = 0
        self.began = trio.Event()  # admitted, or over
        self.is_over = False
        size = sequence.request.max_tokens
        self._send, self._receive = trio.open_memory_channel[GenerationStep](size)
        self.failure: RequestFailed | None = None

    @property
    def request(self) -> GenerationRequest:
        """What was asked for."""
        return self.sequence.request

    @property
    def trace(self) -> RequestTrace:
        """What it has cost so far."""
        return self.sequence.trace

    def __aiter__(self) -> Self:
        """Iterate over accepted tokens; for one consumer."""
        return self

    async def __anext__(self) -> GenerationStep:
        """Return the next token; `GenerationFailed` if it cannot complete."""
        try:
            return await self._receive.receive()
        except trio.EndOfChannel:
            if self.failure is not None:
                raise self.failure from None
            raise StopAsyncIteration from None

    def end(self) -> GenerationEnd:
        """Return the figures so far."""
        return end_of(self.sequence, self.finish_reason, self.n_tokens)

    def prompt_logprobs(self) -> tuple[TokenLogprobs, ...]:
        """Return one item for each token of the prompt, if they were asked for."""
        return tuple(self.sequence.prompt_logprobs)

    def push(self, step: GenerationStep) -> None:
        """Take a step from the lane (called on the trio thread)."""
        if not self.trace.cancelled:
            self.n_tokens += len(step.tokens)
            self._send.send_nowait(step)  # has room for max_tokens

    def finish(
        self, reason: FinishReason | None, failure: RequestFailed | None
    ) -> None:
        """End the iteration."""
        self.is_over = True
        self.finish_reason = reason
        self.failure = failure
        self._send.close()
        self.began.set()


class Engine:
    """The `Generator` of this backbone; see `open_engine`."""

    def __init__(self, parts: EngineParts) -> None:
        """Begin with all slots free; callers use `open_engine`."""
        self._parts = parts
        self._token = trio.lowlevel.current_trio_token()
        self._lock = threading.Condition()
        self.schedule = Schedule(parts.limits())
        self.lanes = [self._lane(number) for number in range(parts.n_lanes)]
        self._runs: dict[SequenceState, EngineRun] = {}
        self._left = trio.Event()
        self._closed = False

    def _lane(self, number: int) -> Lane:
        parts = self._parts
        return Lane(
            LaneParts(
                number=number,
                model=parts.model,
                schedule=self.schedule,
                lock=self._lock,
                experts=parts.experts,
                tell=self._told,
                monotonic=parts.monotonic,
                missing=parts.missing,
                speculation=parts.speculation and parts.speculation(),
            )
        )

    @asynccontextmanager
    async def generate(self, request: GenerationRequest) -> AsyncIterator[EngineRun]:
        """Admit a request; leaving the context cancels what is left of it.

        Raises:
            GenerationFailed: OVERLOADED, if too many wait already; or it failed while
                it waited.
            RequestFailed: it can never be run here.
        """
        run = self._submit(request)
        try:
            await run.began.wait()
            if run.failure is not None and run.sequence.started is None:
                raise run.failure
            yield run
        finally:
            self._cancel(run)

    @property
    def n_active(self) -> int:
        """Requests that hold a slot of a lane."""
        return self.schedule.n_running

    @property
    def n_waiting(self) -> int:
        """Requests in the queue."""
        return len(self.schedule.queue)

    async def idle(self) -> None:
        """Wait until no request waits or holds a slot."""
        while self._runs:
            await self._left.wait()

    def cancel_all(self) -> None:
        """Cancel every request."""
        for run in list(self._runs.values()):
            self._cancel(run)

    def close(self) -> None:
        """Cancel every request and let the lanes end after their steps."""
        self._closed = True
        self.cancel_all()
        with self._lock:
            for lane in self.lanes:
                lane.close()
            self._lock.notify_all()

    async def run_lane(self, lane: Lane) -> None:
        """Run a lane until the engine is closed."""
        await trio.to_thread.run_sync(lane.run, limiter=trio.CapacityLimiter(1))

    def end_all(self) -> None:
        """End what no lane will end any more."""
        for run in list(self._runs.values()):
            self._end(run, _the_end())

    def _submit(self, request: GenerationRequest) -> EngineRun:
        if self._closed:
            raise _the_end()
        now = self._parts.monotonic()
        sequence = SequenceState(
            request=request,
            trace=RequestTrace(),
            submitted=now,
            deadline=now + self._parts.deadline_s,
        )
        with self._lock:
            leaving = self.schedule.submit(sequence)
            self._lock.notify_all()
            refusal = None if leaving is None else self.schedule.refuse()
        run = self._runs[sequence] = EngineRun(sequence)
        if leaving is not None and refusal is not None:
            self._end(self._runs[leaving], refusal)
        return run

    def _cancel(self, run: EngineRun) -> None:
        if run.is_over or run.trace.cancelled:
            return
        run.trace.cancelled = True
        with self._lock:
            waits = self.schedule.withdraw(run.sequence)
            self._lock.notify_all()
        if waits:
            self._end(run, Cancelled("the request was cancelled"))
        for lane in self.lanes:
            for step in lane.under_way:
                if step.cancelled:
                    self._parts.cancel(step)  # nobody wants it any more

    # What the lanes tell.

    def _told(self, events: Sequence[Event]) -> None:
        """Hand events to the trio thread; called by a lane, once a step."""
        try:
            self._token.run_sync_soon(self._take, events)
        except trio.RunFinishedError:
            log.debug("events after the end of the event loop")

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            if isinstance(event, StepFailed):
                self._parts.cancel(event.step)
                continue
            run = self._runs.get(event.sequence)
            if run is None:
                continue  # it was preempted, and cancelled before this was heard
            if isinstance(event, Admitted):
                run.began.set()
            elif isinstance(event, Drawn):
                run.push(event.step)
            else:
                self._end(run, event.cause)

    def _end(self, run: EngineRun, cause: FinishReason | Exception) -> None:
        reason, failure = None, None
        if isinstance(cause, FinishReason):
            reason, outcome = cause, cause.value
        else:
            failure = failure_of(cause)
            outcome = "cancelled" if isinstance(cause, Cancelled) else "failed"
        del self._runs[run.sequence]
        if run.sequence.started is not None:  # else nothing was ever done for it
            tokens = (run.sequence.n_prompt, run.n_tokens)
            self._parts.counters.finished(run.trace, outcome, tokens)
        run.finish(reason, failure)
        self._left.set()
        self._left = trio.Event()


@asynccontextmanager
async def open_engine(parts: EngineParts) -> AsyncIterator[Engine]:
    """Run an engine; leaving the context cancels all requests and waits for lanes."""
    engine = Engine(parts)
    try:
        async with trio.open_nursery() as nursery:
            try:
                for lane in engine.lanes:
                    nursery.start_soon(engine.run_lane, lane)
                yield engine
            finally:
                engine.close()
    finally:
        engine.end_all()


def failure_of(error: BaseException) -> RequestFailed:
    """Return what the client may know of an error; the rest goes to the log."""
    if isinstance(error, GenerationFailed):
        return error
    for kind_of_error, kind in _KINDS:
        if isinstance(error, kind_of_error):
            return GenerationFailed(kind, str(error))
    if isinstance(error, Cancelled):
        return _the_end()  # a client that cancelled hears nothing any more
    if isinstance(error, RequestFailed):
        return error  # a grammar's, a token's: about this request alone
    if isinstance(error, P2pmoeError):
        log.error("a request failed: %s", error)
        if isinstance(error, ModelFileError):  # whose message has a path
            reason = "the model file has lost weights that every token needs"
            return GenerationFailed(FailureKind.UPSTREAM_LOST, reason)
    else:
        log.error("a request failed", exc_info=error)
    return GenerationFailed(FailureKind.INTERNAL, "the backbone failed")


def _the_end() -> GenerationFailed:
    return GenerationFailed(FailureKind.NOT_READY, "the backbone ends")
