"""Sends a layer's remote calls, and sees to it that each comes back exactly once.

The trio side's state machine, without awaits: every method runs on the trio thread,
changes state and calls `send`, which only queues. Rules:

- one DISPATCH per worker and layer, all of them sent before anything else;
- an OUTPUT counts only from the worker that was asked, for a request that is still
  open, row for row (outputs.py); a second or late one is dropped and counted;
- whatever goes wrong with a worker (lost, late, refused, an error of its own) demotes
  it, and its calls go to another live holder, else are handed back to the decode
  thread if it has a disk, else wait for a holder until the request's deadline;
- a non-finite value (ARITH) is computed once here and never sent round again, nor
  does it count against the worker; calls that three workers failed come here as well;
- a layer ends with all of its calls or with an error, never in between (fault B11);
- some answers are compared with this machine's own (`CheckTicket`) and are paid only
  after that; one wrong result ends all business with its worker (fault B34).
"""

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from mobile_worker.errors import LocalError
from mobile_worker.messages import Message
from mobile_worker.messages.membership import Cancel
from mobile_worker.messages.serving import Output, OutputError
from p2pmoe.backbone.attempts import (
    Attempt,
    Deadlines,
    build_dispatch,
    payload_bytes,
)
from p2pmoe.backbone.cost import CallSample
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.exchange import CheckTicket, LayerWork, Reason
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.outputs import CallResult, read_output
from p2pmoe.backbone.path_times import Path
from p2pmoe.backbone.plan import ExpertRows, WorkerCalls
from p2pmoe.backbone.progress import Progress
from p2pmoe.backbone.servings import Accounts, Served
from p2pmoe.backbone.spot_checks import SpotChecks
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import MissingPolicy
from p2pmoe.errors import Cancelled, OutputRefused
from relay.keys import PeerId

__all__ = ["Dispatcher", "DispatcherParts", "SpotChecks"]

log = logging.getLogger("p2pmoe.dispatcher")

STRANDED_RETRY_S = 0.25
MAX_REFUSED_ANSWERS = 3
_VERDICTS = {True: "passed", False: "failed", None: "skipped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherParts:
    """What a dispatcher works with; `send` queues a message and never blocks."""

    send: Callable[[PeerId, Message], None]
    fleet: Fleet
    accounts: Accounts
    counters: BackboneCounters
    clock: Callable[[], float]
    random: Random
    checks: SpotChecks = field(default_factory=SpotChecks)


class Dispatcher:
    """All dispatches of this backbone that are under way."""

    def __init__(self, parts: DispatcherParts) -> None:
        """Begin with nothing under way."""
        self._parts = parts
        self._fleet = parts.fleet
        self._attempts: dict[int, Attempt] = {}
        self._deadlines = Deadlines()
        self._stranded: list[Progress] = []
        self._unchecked: dict[int, tuple[StepTrace, Served]] = {}
        self._last_request = parts.random.getrandbits(48) << 8
        self.on_sooner: Callable[[], None] = lambda: None

    # Calls from the decode threads, by way of the trio thread.

    def start(self, work: LayerWork) -> None:
        """Send all remote calls of a layer."""
        progress = Progress(work)
        if work.trace.cancelled:
            progress.fail(Cancelled("the request was cancelled"))
            return
        for message in work.plan.remote:
            self._send(progress, message)
        if work.plan.stranded:
            self._place(progress, work.plan.stranded)
        progress.finish_if_complete()

    def cancel(self, step: StepTrace) -> None:
        """Stop a step: its layer ends at once, its workers are told.

        Its requests are not cancelled by this; they may run in other steps. Its answers
        that wait for a check are paid: nobody will report on them.
        """
        step.stop()
        error = Cancelled("the request was cancelled")
        for attempt in list(self._attempts.values()):
            if attempt.progress.work.trace is step:
                self._give_up(attempt)
                self._parts.accounts.abandon(attempt.slot)
                attempt.progress.fail(error)
        for progress in self._stranded:
            if progress.work.trace is step:
                progress.fail(error)
        for number, (owner, served) in list(self._unchecked.items()):
            if owner is step:
                del self._unchecked[number]
                self._parts.accounts.accept(served)

    def checked(self, ticket: CheckTicket, *, passed: bool | None) -> None:
        """Take the decode thread's verdict on an answer that it recomputed.

        None is no verdict: the file has lost that expert. Such an answer is paid, and
        its worker is no better known by it.
        """
        self._parts.counters.spot_checks[_VERDICTS[passed]] += 1
        _, served = self._unchecked.pop(ticket.number, (None, None))
        if passed is not False:
            self._fleet.workers[ticket.peer].passes += passed is True
            if served is not None:
                self._parts.accounts.accept(served)
            return
        log.error("worker %s gave a wrong result", ticket.peer.hex()[:8])
        if served is not None:
            self._parts.accounts.abandon(served.slot)
        self._ban(ticket.peer)
        self._parts.counters.failed_over(Reason.CHECK, len(ticket.calls))

    # Events of the network.

    def on_output(self, peer: PeerId, output: Output, n_bytes: int) -> None:
        """Take an OUTPUT in, if it is wanted and right."""
        attempt = self._attempts.get(output.request)
        if attempt is None:
            self._parts.counters.late_outputs += 1
            return
        if attempt.peer != peer:
            log.warning("worker %s answered another's request", peer.hex()[:8])
            self._fleet.failed(peer, self._parts.clock(), weight=2)
            return
        self._close(attempt)
        if output.error != OutputError.OK:
            self._errored(attempt, OutputError(output.error))
            return
        try:
            results = read_output(attempt.shape, output, peer)
        except OutputRefused as error:
            self._refused(attempt, error)
            return
        self._accept(attempt, results, output, n_bytes)

    def on_lost(self, peer: PeerId) -> None:
        """Move all work of a worker whose link or process is gone."""
        self._fleet.lost(peer, self._parts.clock())
        self._move_all(peer, Reason.LOST)

    def on_busy(self, peer: PeerId, request: int, retry_ms: int) -> None:
        """Move one request that a worker's queue has no room for."""
        attempt = self._attempts.get(request)
        if attempt is None or attempt.peer != peer:
            return
        log.info("worker %s is busy for %d ms", peer.hex()[:8], retry_ms)
        self._close(attempt)
        self._elsewhere(attempt, Reason.ERROR)

    def retry_stranded(self) -> None:
        """Ask again for calls without a holder, after the fleet has changed."""
        waiting, self._stranded = self._stranded, []
        for progress in waiting:
            if not progress.over:
                self._place(progress, progress.unstrand())
                progress.finish_if_complete()

    # Time.

    def next_time(self) -> float | None:
        """Return when `expire` should run next, None if there is no reason to.

        Deadlines of answered requests count, so that `on_sooner` misses none.
        """
        if self._stranded:
            soon = min(progress.gives_up_at for progress in self._stranded)
            soon = min(soon, self._parts.clock() + STRANDED_RETRY_S)
            return min(soon, self._deadlines.next or soon)
        return self._deadlines.next

    def expire(self) -> None:
        """Act on all that is late by now."""
        now = self._parts.clock()
        for request in self._deadlines.due(now):
            attempt = self._attempts.get(request)
            if attempt is not None:
                log.info("worker %s is late", attempt.peer.hex()[:8])
                self._give_up(attempt)
                self._fleet.failed(attempt.peer, now)
                self._elsewhere(attempt, Reason.LATE)
        for progress in self._stranded:
            if progress.gives_up_at <= now:
                progress.fail(progress.unavailable())
        self.retry_stranded()

    def in_flight(self) -> Mapping[PeerId, int]:
        """Return the number of unanswered dispatches by worker."""
        return Counter(attempt.peer for attempt in self._attempts.values())

    # Sending.

    def _send(self, progress: Progress, message: WorkerCalls) -> None:
        room = self._parts.accounts.room(message.peer)
        if 0 < room < len(message.calls):  # what its float takes, the rest elsewhere
            rest = replace(message, calls=message.calls[room:])
            message = replace(message, calls=message.calls[:room])
            self._unsent(progress, rest)
        attempt = self._attempt(progress, message)
        if attempt is None:
            self._unsent(progress, message)
            return
        try:
            self._parts.send(message.peer, build_dispatch(attempt))
        except LocalError as error:
            log.warning("worker %s: %s", message.peer.hex()[:8], error)
            self._parts.accounts.abandon(attempt.slot)
            self._fleet.failed(message.peer, attempt.sent_at)
            self._unsent(progress, message)
            return
        progress.work.trace.sent(message.calls, attempt.n_bytes_up)
        cost = self._fleet.workers[attempt.peer].cost
        cost.in_flight_rows += attempt.n_rows
        cost.n_rows_sent += attempt.n_rows
        earliest = self._deadlines.next
        self._attempts[attempt.request] = attempt
        self._deadlines.add(attempt.deadline, attempt.request)
        if earliest is None or attempt.deadline < earliest:
            self.on_sooner()

    def _attempt(self, progress: Progress, message: WorkerCalls) -> Attempt | None:
        """Number a dispatch and give it its deadline; None if it may not be sent."""
        worker = self._fleet.workers.get(message.peer)
        if worker is None or not worker.askable:
            return None
        n_calls, n_rows = len(message.calls), message.n_rows
        slot = self._parts.accounts.number(message.peer, n_calls, n_rows)
        if slot is None:
            return None
        now = self._parts.clock()
        n_bytes = payload_bytes(progress.work, message.calls)
        left = max(0.001, progress.work.deadline - now)
        self._last_request += 1
        return Attempt(
            request=self._last_request,
            peer=message.peer,
            tier=message.tier,
            calls=message.calls,
            slot=slot,
            nonce=self._parts.random.randbytes(8),
            sent_at=now,
            deadline=now + min(worker.cost.deadline_s(n_rows, n_bytes), left),
            n_bytes_up=n_bytes,
            progress=progress,
        )

    def _accept(
        self,
        attempt: Attempt,
        results: list[CallResult],
        output: Output,
        n_bytes: int,
    ) -> None:
        worker = self._fleet.workers[attempt.peer]
        self._fleet.succeeded(attempt.peer)
        elapsed_s = self._parts.clock() - attempt.sent_at
        self._parts.counters.times.add(Path(attempt.tier.value), elapsed_s)
        worker.cost.observe(
            CallSample(
                elapsed_s=elapsed_s,
                compute_s=output.compute_us / 1e6,
                n_rows=attempt.n_rows,
                n_bytes=attempt.n_bytes_up + n_bytes,
            )
        )
        progress = attempt.progress
        if not progress.take(results):
            self._parts.accounts.abandon(attempt.slot)
            return
        trace = progress.work.trace
        trace.received(attempt.calls, n_bytes)
        trace.called(attempt.tier, attempt.calls)
        worker.n_calls += len(results)
        served = attempt.served(results)
        share = self._parts.checks.share(worker.passes)
        if self._parts.random.random() < share:
            self._unchecked[attempt.request] = (trace, served)
            progress.check(attempt.ticket(self._parts.random.choice(attempt.calls)))
        else:
            self._parts.accounts.accept(served)
        progress.finish_if_complete()

    # What goes wrong with a worker, and where its calls go then.

    def _errored(self, attempt: Attempt, error: OutputError) -> None:
        peer, now = attempt.peer, self._parts.clock()
        if error is OutputError.ARITH:
            self._parts.accounts.abandon(attempt.slot)
            self._parts.counters.failed_over(Reason.ARITH, len(attempt.calls))
            attempt.progress.hand_back(attempt.calls, Reason.ARITH)
            attempt.progress.finish_if_complete()
            return
        log.warning("worker %s says %s", peer.hex()[:8], error.name)
        attempt.progress.failed_on(attempt.calls, peer)
        if error is OutputError.NOT_HELD:
            layer = attempt.progress.work.plan.layer
            self._fleet.not_held(peer, layer, [c.expert for c in attempt.calls])
        elif error is OutputError.NO_GRANT:
            self._parts.accounts.refused_for_grant(peer)
            self._fleet.failed(peer, now)
        elif error is OutputError.DRAINING:
            self._fleet.draining(peer, now)
        else:
            self._fleet.failed(peer, now)
        self._elsewhere(attempt, Reason.ERROR)

    def _refused(self, attempt: Attempt, error: OutputRefused) -> None:
        log.warning("worker %s: %s", attempt.peer.hex()[:8], error)
        self._parts.counters.refused_outputs += 1
        worker = self._fleet.workers[attempt.peer]
        worker.n_refused += 1
        self._fleet.failed(attempt.peer, self._parts.clock(), weight=2)
        self._elsewhere(attempt, Reason.REFUSED)
        if worker.n_refused >= MAX_REFUSED_ANSWERS:
            self._ban(attempt.peer)

    def _ban(self, peer: PeerId) -> None:
        self._parts.accounts.withhold(peer)
        self._fleet.dropped(peer)
        self._move_all(peer, Reason.CHECK)

    def _move_all(self, peer: PeerId, reason: Reason) -> None:
        for attempt in list(self._attempts.values()):
            if attempt.peer == peer:
                self._close(attempt)
                self._elsewhere(attempt, reason)

    def _give_up(self, attempt: Attempt) -> None:
        """Stop waiting for an attempt and tell its worker, if it can be told."""
        self._close(attempt)
        with contextlib.suppress(LocalError):
            self._parts.send(attempt.peer, Cancel(request=attempt.request))

    def _close(self, attempt: Attempt) -> None:
        del self._attempts[attempt.request]
        self._fleet.workers[attempt.peer].cost.in_flight_rows -= attempt.n_rows

    def _elsewhere(self, attempt: Attempt, reason: Reason) -> None:
        self._parts.accounts.abandon(attempt.slot)
        progress = attempt.progress
        if progress.over:
            return
        progress.tried(attempt.calls, attempt.peer)
        progress.work.trace.failed_over(attempt.calls)
        self._parts.counters.failed_over(reason, len(attempt.calls))
        self._place(progress, attempt.calls)
        progress.finish_if_complete()

    def _unsent(self, progress: Progress, message: WorkerCalls) -> None:
        progress.tried(message.calls, message.peer)
        self._place(progress, message.calls)

    def _place(self, progress: Progress, calls: Iterable[ExpertRows]) -> None:
        plan = progress.replan(calls, self._fleet)
        progress.hand_back(plan.disk, Reason.LOST)
        for message in plan.remote:
            self._send(progress, message)
        self._strand(progress, plan.stranded)

    def _strand(self, progress: Progress, calls: Iterable[ExpertRows]) -> None:
        if progress.work.missing is not MissingPolicy.WAIT:
            held = self._fleet.holders(progress.work.plan.layer)
            calls = tuple(calls)
            progress.held_by_nobody([c for c in calls if not held.get(c.expert)])
        progress.strand(calls, self._parts.clock())
        if progress.stranded and progress not in self._stranded:
            self._stranded.append(progress)
            self.on_sooner()
