"""The serve loop: takes dispatches in, computes them in threads, answers.

Decide, then act: `dispatched` decides at once (refuse, repeat, busy, or queue) and
sends what there is to say; the runners take queued jobs, those that share an expert
together, compute them in a thread of their own limiter, and send each its answer. What
takes less than the way to a thread and back is computed where it is. Refusals reserve
nothing. Leaves are built when
an answer is ready, before it is sent. Losing a peer stops nothing here: an answer
nobody waits for is dropped by the node.

How much of the machine is used may change at any time: `paused` (why; what comes is
told DRAINING, which is no fault, and what was taken is finished), `pace` (bytes sent),
`duty` (the part of the time that a thread computes) and `use_threads`.
"""

import logging
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import trio

from mobile_worker.arithmetic.kernel import Kernel
from mobile_worker.clock import Clock
from mobile_worker.errors import NodeClosed, SendQueueFull, UnsendableMessage
from mobile_worker.expert_id import ExpertId
from mobile_worker.governor.pacing import Pacer
from mobile_worker.messages.codec import Message
from mobile_worker.messages.membership import Busy
from mobile_worker.messages.serving import Dispatch, Output, OutputError
from mobile_worker.serve.admission import Problem, check_dispatch, n_macs
from mobile_worker.serve.answers import AnswerCache
from mobile_worker.serve.compute import Computed
from mobile_worker.serve.held import HeldModel
from mobile_worker.serve.jobs import MERGED_MACS, Job, JobQueue
from mobile_worker.serve.merging import compute_together
from mobile_worker.servings.tab import Refusal, Tab
from relay.keys import PeerId, short_id

__all__ = ["ExpertServer", "Find", "ServeCounts", "ServeSettings"]

logger = logging.getLogger("p2pmoe.serve")

_BUSY_RETRY_MS = 50
_AT_ONCE_US = 100.0  # a thread is some 60 us away, more where cores are busy
_AT_ONCE_BYTES = 1 << 16  # of rows, whatever their experts: looking at them takes time
_RATE_ALPHA = 0.1

Find = Callable[[PeerId, bytes], tuple[Tab, HeldModel] | None]
Send = Callable[[PeerId, Message], None]
Measured = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeSettings:
    """Bounds of the serve loop. max_macs: multiply-adds of one dispatch.

    merged_macs: those of a row and expert from which dispatches are computed together.
    """

    n_threads: int = 1
    max_macs: int = 1 << 37  # 3,000 rows of the largest experts known: some seconds
    max_jobs: int = 64
    max_queue_bytes: int = 32 << 20
    merged_macs: int = MERGED_MACS


@dataclass(slots=True)
class ServeCounts:
    """Servings since the start, and dispatches: refused, computed with others'."""

    servings: int = 0
    refused: int = 0
    merged: int = 0


class ExpertServer:
    """Computes dispatches of any number of backbones."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        find: Find,
        send: Send,
        clock: Clock,
        settings: ServeSettings | None = None,
    ) -> None:
        """Serve what `find(peer, tab)` knows, answering through `send`."""
        settings = settings or ServeSettings()
        self.counts = ServeCounts()
        self.is_draining = False
        self.paused = ""  # why; "" while it works
        self.pace = Pacer()
        self.duty = 1.0
        self.measured: Measured = lambda _n_macs, _compute_us: None  # told of each call
        self._kernel = kernel
        self._find = find
        self._send = send
        self._clock = clock
        self._queue = JobQueue(
            max_jobs=settings.max_jobs,
            max_bytes=settings.max_queue_bytes,
            merged_macs=settings.merged_macs,
        )
        self._answers = AnswerCache()
        self._n_threads = settings.n_threads
        self._room = trio.CapacityLimiter(settings.n_threads)
        self._max_macs = settings.max_macs
        self._mac_us = math.inf  # of one multiply-add, until the first are measured
        self._waiting = trio.Semaphore(0)
        self._n_running = 0
        self._idle = trio.Event()
        self._idle.set()

    @property
    def n_unfinished(self) -> int:
        """Jobs that wait or run."""
        return len(self._queue) + self._n_running

    def use_threads(self, n_threads: int) -> None:
        """Compute on so many threads from now on, as many as it began with at most."""
        n = max(1, min(n_threads, self._n_threads))
        if n != self._room.total_tokens:
            self._room.total_tokens = n

    def dispatched(self, peer: PeerId, dispatch: Dispatch) -> None:
        """Take a dispatch in, or answer it at once."""
        repeat = self._answers.seen(peer, dispatch)
        if repeat is not None:
            if not repeat.same:
                problem = Problem(OutputError.BAD_REQUEST, "another request of this id")
                self._refuse(peer, dispatch, problem)
            elif repeat.answer is not None:
                self._say(peer, repeat.answer)
            return
        if self.is_draining:
            self._refuse(peer, dispatch, Problem(OutputError.DRAINING, "draining"))
            return
        if self.paused:
            self._say(peer, _without_results(dispatch, OutputError.DRAINING))
            return
        if self._queue.is_full:
            busy = Busy(
                request=dispatch.request,
                queued=len(self._queue),
                retry_ms=_BUSY_RETRY_MS,
            )
            self._say(peer, busy)
            return
        outcome = self._admit(peer, dispatch)
        if isinstance(outcome, Problem):
            self._refuse(peer, dispatch, outcome)
            return
        self._answers.taken(peer, dispatch)
        self._queue.push(outcome)
        self._idle = trio.Event() if self._idle.is_set() else self._idle
        self._waiting.release()

    def cancelled(self, peer: PeerId, request: int) -> None:
        """Drop a dispatch that still waits; what runs is finished."""
        job = self._queue.cancel(peer, request)
        if job is not None:
            job.tab.failed(job.taken)
            self._answers.dropped(peer, job.dispatch)
            self._rest()

    async def run(self) -> None:
        """Compute queued dispatches until cancelled."""
        limiter = trio.CapacityLimiter(self._n_threads)
        async with trio.open_nursery() as nursery:
            for _ in range(self._n_threads):
                nursery.start_soon(self._runner, limiter)

    async def idle(self) -> None:
        """Wait until nothing waits or runs."""
        while self.n_unfinished:
            await self._idle.wait()

    async def _runner(self, limiter: trio.CapacityLimiter) -> None:
        while True:
            await self._waiting.acquire()
            async with self._room:
                await self._wait_to_send()
                jobs = self._queue.pop_together()  # none: cancelled, or gone already
                self._n_running += len(jobs)
                started = self._clock.monotonic()
                try:
                    await self._serve(jobs, limiter)
                finally:
                    self._n_running -= len(jobs)
                    self._rest()
                await self._cool(self._clock.monotonic() - started)

    async def _wait_to_send(self) -> None:
        """Compute nothing while answers wait for the rate: the queue says BUSY."""
        wait_s = self.pace.wait_s(self._clock.monotonic())
        if wait_s:
            await trio.sleep(wait_s)

    async def _cool(self, computed_s: float) -> None:
        if self.duty < 1.0:
            await trio.sleep(computed_s * (1.0 / self.duty - 1.0))

    async def _serve(self, jobs: Sequence[Job], limiter: trio.CapacityLimiter) -> None:
        now = self._clock.monotonic()
        late = [job for job in jobs if job.is_overdue(now)]
        for job in late:
            outcome = Computed(error=OutputError.OVERDUE, reason="overdue in the queue")
            self._answer(job, outcome)
        ready = [job for job in jobs if job not in late]
        if not ready:
            return
        self.counts.merged += len(ready) if len(ready) > 1 else 0
        asked = [job.asked for job in ready]
        if self._is_soon_done(ready):
            outcomes = compute_together(self._kernel, asked)
        else:
            outcomes = await trio.to_thread.run_sync(
                compute_together, self._kernel, asked, limiter=limiter
            )
        for job, outcome in zip(ready, outcomes, strict=True):
            self._answer(job, outcome)

    def _is_soon_done(self, jobs: Sequence[Job]) -> bool:
        """Whether these take less than a thread would take to begin."""
        n_macs, n_bytes = sum(j.n_macs for j in jobs), sum(j.n_bytes for j in jobs)
        return self._mac_us * n_macs <= _AT_ONCE_US and n_bytes <= _AT_ONCE_BYTES

    def _answer(self, job: Job, outcome: Computed) -> None:
        answer = Output(
            request=job.dispatch.request,
            error=outcome.error,
            compute_us=min(outcome.compute_us, 0xFFFF_FFFF),
            n_rows_total=outcome.n_rows,
            results=outcome.results,
        )
        if outcome.error == OutputError.OK:
            self._measured(job, outcome)
            self.pace.spent(len(outcome.results), self._clock.monotonic())
            job.tab.computed(job.taken, outcome.hashes, self._clock.monotonic())
            self.counts.servings += len(job.dispatch.calls)
        else:
            job.tab.failed(job.taken)
            self._log(job.peer, job.dispatch, Problem(outcome.error, outcome.reason))
        self._answers.answered(job.peer, job.dispatch, answer)
        self._say(job.peer, answer)

    def _measured(self, job: Job, outcome: Computed) -> None:
        """Keep a running mean of what a multiply-add takes here."""
        if job.n_macs:
            sample = max(1, outcome.compute_us) / job.n_macs
            before = self._mac_us if math.isfinite(self._mac_us) else sample
            self._mac_us = before + _RATE_ALPHA * (sample - before)
            self.measured(job.n_macs, outcome.compute_us)

    def _admit(self, peer: PeerId, dispatch: Dispatch) -> Job | Problem:
        found = self._find(peer, dispatch.tab)
        if found is None:
            return Problem(OutputError.NO_GRANT, "unknown tab")
        tab, model = found
        problem = check_dispatch(dispatch, model, tab.terms.profile, self._max_macs)
        if problem is not None:
            return problem
        taken = tab.admit(dispatch, self._clock.wall_us())
        if isinstance(taken, Refusal):
            reused = taken is Refusal.REUSED
            error = OutputError.BAD_REQUEST if reused else OutputError.NO_GRANT
            return Problem(error, taken.value)
        return Job(
            peer=peer,
            dispatch=dispatch,
            weights=[
                model.weights[ExpertId(dispatch.layer, call.index)]
                for call in dispatch.calls
            ],
            tab=tab,
            taken=taken,
            received_at=self._clock.monotonic(),
            n_macs=n_macs(dispatch, model),
        )

    def _refuse(self, peer: PeerId, dispatch: Dispatch, problem: Problem) -> None:
        self._log(peer, dispatch, problem)
        self._say(peer, _without_results(dispatch, problem.error))

    def _log(self, peer: PeerId, dispatch: Dispatch, problem: Problem) -> None:
        self.counts.refused += 1
        level = (
            logging.WARNING
            if problem.error in {OutputError.BAD_REQUEST, OutputError.ARITH}
            else logging.DEBUG
        )
        logger.log(
            level,
            "request %d of %s: %s (%s)",
            dispatch.request,
            short_id(peer),
            problem.error.name,
            problem.reason,
        )

    def _say(self, peer: PeerId, message: Message) -> None:
        try:
            self._send(peer, message)
        except SendQueueFull:
            # The peer does not read; it asks again and gets the kept answer.
            logger.warning("queue to %s is full, answer dropped", short_id(peer))
        except UnsendableMessage as error:
            logger.warning("answer to %s dropped: %s", short_id(peer), error)
        except NodeClosed:
            logger.debug("answer after the node closed")

    def _rest(self) -> None:
        if not self.n_unfinished:
            self._idle.set()


def _without_results(dispatch: Dispatch, error: OutputError) -> Output:
    return Output(
        request=dispatch.request,
        error=error,
        compute_us=0,
        n_rows_total=0,
        results=b"",
    )
