"""Sends a layer's remote calls, and sees to it that each comes back exactly once.

The trio side's state machine, without awaits: every method runs on the trio thread,
changes state and calls `send`, which only queues. Rules:

- one DISPATCH per worker and layer, all of them sent before anything else;
- an OUTPUT counts only from the worker that was asked, row for row (outputs.py), and
  only for a request that is still wanted; one that was called off in vain is looked at
  (withdrawn.py), a second or late one is dropped and counted;
- whatever goes wrong with a worker (lost, late, refused, an error of its own) demotes
  it, and its calls go to another live holder, else are handed back to the decode
  thread if it has a disk, else wait for a holder until the request's deadline;
- a worker that is slow with a call is hedged (hedges.py): the first answer is taken,
  the others are called off, and compared if they come (audits.py);
- a non-finite value (ARITH) is computed once here and never sent round again, nor
  does it count against the worker; calls that three workers failed come here as well,
  and are held against none of them (fault B32);
- a layer ends with all of its calls or with an error, never in between (fault B11);
- every serving number ends once, accepted or given back; every valid answer in time is
  paid, the losers of hedges too, unless a check or a dispute proves it wrong.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from mobile_worker.messages.audits import CheckOutcome
from mobile_worker.messages.serving import Output
from p2pmoe.backbone.attempts import Attempt, Purpose
from p2pmoe.backbone.audits import Audits, Dispute
from p2pmoe.backbone.exchange import CheckTicket, LayerWork, Reason
from p2pmoe.backbone.flights import DispatcherParts, Flights
from p2pmoe.backbone.hedges import Hedges
from p2pmoe.backbone.outputs import CallResult
from p2pmoe.backbone.plan import ExpertRows, WorkerCalls
from p2pmoe.backbone.progress import Progress
from p2pmoe.backbone.spot_checks import SpotChecks
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.backbone.verdicts import Verdicts
from p2pmoe.backbone.withdrawn import Withdrawals, Withdrawn
from p2pmoe.config import MissingPolicy
from p2pmoe.errors import Cancelled
from relay.keys import PeerId

__all__ = ["Dispatcher", "DispatcherParts", "SpotChecks"]

log = logging.getLogger("p2pmoe.dispatcher")

STRANDED_RETRY_S = 0.25


class Dispatcher:
    """All dispatches of this backbone that are under way."""

    def __init__(self, parts: DispatcherParts) -> None:
        """Begin with nothing under way."""
        self._parts = parts
        self._fleet = parts.fleet
        self._flights = Flights(parts)
        self._hedges = Hedges(parts, self._flights)
        self._withdrawn = Withdrawals()
        self._audits = Audits(
            accounts=parts.accounts,
            fleet=parts.fleet,
            counters=parts.counters,
            checks=parts.checks,
            random=parts.random,
            reports=parts.reports,
        )
        self._verdicts = Verdicts(parts)
        self._stranded: list[Progress] = []

    @property
    def on_sooner(self) -> Callable[[], None]:
        """What is called when `next_time` has become sooner."""
        return self._flights.on_sooner

    @on_sooner.setter
    def on_sooner(self, heard: Callable[[], None]) -> None:
        self._flights.on_sooner = heard

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
        self._hedges.probe(progress)
        self._finish(progress)

    def cancel(self, step: StepTrace) -> None:
        """Stop a step: its layer ends at once, its workers are told.

        Its requests are not cancelled by this; they may run in other steps. Its answers
        that wait for a check are paid: nobody will report on them.
        """
        step.stop()
        error = Cancelled("the request was cancelled")
        for attempt in self._flights.of_step(step):
            attempt.progress.fail(error)
            self._withdraw(attempt)
        for progress in self._stranded:
            if progress.work.trace is step:
                progress.fail(error)
        self._audits.stopped(step)

    def checked(self, ticket: CheckTicket, *, passed: bool | None) -> None:
        """Take the decode thread's verdict on an answer that it recomputed."""
        self._audits.checked(ticket, passed=passed)
        if passed is False:
            log.error("worker %s gave a wrong result", ticket.peer.hex()[:8])
            self._ban(ticket.peer)
            self._parts.counters.failed_over(Reason.CHECK, len(ticket.calls))

    def ruled(self, number: int, right: bytes | None) -> None:
        """Take the verdict on a dispute: the right coded results, None if unknown.

        Whoever gave other results is out of business with us (fault B34).
        """
        for peer in self._audits.ruled(number, right, self._parts.clock()):
            log.error("worker %s gave a wrong result", peer.hex()[:8])
            self._ban(peer)

    # Events of the network.

    def on_output(self, peer: PeerId, output: Output, n_bytes: int) -> None:
        """Take an OUTPUT in, if it is wanted and right."""
        attempt = self._flights.get(output.request)
        withdrawn = self._withdrawn.get(output.request)
        asked = withdrawn.attempt if withdrawn else attempt
        if asked is None:
            self._parts.counters.late_outputs += 1
        elif asked.peer != peer:
            log.warning("worker %s answered another's request", peer.hex()[:8])
            self._fleet.failed(peer, self._parts.clock(), weight=2)
        elif withdrawn is not None:
            self._answered_late(withdrawn, output, n_bytes)
        else:
            self._answered(asked, output, n_bytes)

    def on_lost(self, peer: PeerId) -> None:
        """Move all work of a worker whose link or process is gone."""
        self._fleet.lost(peer, self._parts.clock())
        self._move_all(peer, Reason.LOST)

    def on_busy(self, peer: PeerId, request: int, retry_ms: int) -> None:
        """Move one request that a worker's queue has no room for."""
        log.info("worker %s is busy for %d ms", peer.hex()[:8], retry_ms)
        attempt = self._flights.get(request)
        if attempt is not None and attempt.peer == peer:
            self._flights.close(attempt)
            self._fleet.busy(peer, self._parts.clock())
            self._elsewhere(attempt, Reason.ERROR)
        withdrawn = self._withdrawn.get(request)
        if withdrawn is not None and withdrawn.attempt.peer == peer:
            self._forget(withdrawn)

    def retry_stranded(self) -> None:
        """Ask again for calls without a holder, after the fleet has changed."""
        waiting, self._stranded = self._stranded, []
        for progress in waiting:
            if not progress.over:
                self._place(progress, progress.unstrand())
                self._finish(progress)

    # Time.

    def next_time(self) -> float | None:
        """Return when `expire` should run next, None if there is no reason to."""
        due = self._flights.next_time
        if self._stranded:
            soon = min(progress.gives_up_at for progress in self._stranded)
            soon = min(soon, self._parts.clock() + STRANDED_RETRY_S)
            return min(soon, due or soon)
        return due

    def expire(self) -> None:
        """Act on all that is late by now."""
        now = self._parts.clock()
        for request in self._flights.due(now):
            attempt = self._flights.get(request)
            withdrawn = self._withdrawn.get(request)
            if withdrawn is not None and withdrawn.kept_until <= now:
                self._outlasted(withdrawn)
            elif attempt is not None and attempt.deadline <= now:
                self._late(attempt)
            elif attempt is not None:
                self._hedges.look(attempt, now)
        for progress in self._stranded:
            if progress.gives_up_at <= now:
                progress.fail(progress.unavailable())
                self._finish(progress)
                self._audits.stopped(progress.work.trace)  # its checks are never made
        self.retry_stranded()

    @property
    def n_open(self) -> int:
        """How many dispatches may still be answered, those called off among them."""
        return len(self._flights) + len(self._withdrawn)

    def in_flight(self) -> Mapping[PeerId, int]:
        """Return the number of unanswered dispatches by worker."""
        return self._flights.n_by_worker()

    # Sending.

    def _send(self, progress: Progress, message: WorkerCalls) -> None:
        room = self._parts.accounts.room(message.peer)
        if 0 < room < len(message.calls):  # what its float takes, the rest elsewhere
            rest = replace(message, calls=message.calls[room:])
            message = replace(message, calls=message.calls[:room])
            self._unsent(progress, rest)
        attempt = self._flights.send(progress, message)
        if attempt is None:
            self._unsent(progress, message)
        else:
            self._hedges.sent(attempt)

    def _unsent(self, progress: Progress, message: WorkerCalls) -> None:
        progress.tried(message.calls, message.peer)
        self._place(progress, message.calls)

    def _place(self, progress: Progress, calls: Iterable[ExpertRows]) -> None:
        plan = progress.replan(calls, self._fleet)
        for peer in progress.excused():
            self._fleet.excused(peer, self._parts.clock())
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

    # Answers.

    def _answered(self, attempt: Attempt, output: Output, n_bytes: int) -> None:
        self._flights.close(attempt)
        results = self._verdicts.read(attempt, output)
        if not isinstance(results, Reason):
            self._verdicts.observe(attempt, output, n_bytes)
            self._accept(attempt, results, n_bytes)
        elif results is Reason.ARITH:
            self._hedges.ended(attempt, "failed")
            self._parts.accounts.abandon(attempt.slot)
            calls = attempt.progress.uncovered(attempt.calls)
            self._parts.counters.failed_over(Reason.ARITH, len(calls))
            attempt.progress.hand_back(calls, Reason.ARITH)
            self._finish(attempt.progress)
        else:
            self._elsewhere(attempt, results)
            self._ban_if_hopeless(attempt.peer)

    def _accept(
        self, attempt: Attempt, results: list[CallResult], n_bytes: int
    ) -> None:
        progress, trace = attempt.progress, attempt.progress.work.trace
        trace.received(attempt.calls, n_bytes)
        dispute = self._audits.compare(attempt, results, progress.taken)
        if dispute is not None:  # what else it says is not taken on trust
            self._hedges.ended(attempt, "failed")
            self._open(dispute, attempt, results)
            self._move(attempt, Reason.CHECK)
            return
        fresh = progress.take(results, attempt.slot)
        trace.called(attempt.tier, [result.call for result in fresh])
        self._hedges.ended(attempt, "won" if fresh else "lost")
        ticket = self._audits.settle(attempt, results, fresh)
        if ticket is not None:
            progress.check(ticket)
        self._finish(progress)

    def _answered_late(self, item: Withdrawn, output: Output, n_bytes: int) -> None:
        """Compare an answer that is not wanted any more; pay it if it was in time."""
        attempt = item.attempt
        self._withdrawn.remove(item)
        results = self._verdicts.read(attempt, output)
        if isinstance(results, Reason):
            self._parts.accounts.abandon(attempt.slot)
            self._ban_if_hopeless(attempt.peer)
            return
        self._verdicts.observe(attempt, output, n_bytes)
        dispute = self._audits.compare(attempt, results, attempt.progress.taken)
        if self._parts.clock() > item.paid_until:
            self._parts.counters.unpaid_servings += len(results)
            self._parts.accounts.abandon(attempt.slot)
            if dispute is not None:
                self._open(dispute, attempt, None)
        elif dispute is not None:
            self._open(dispute, attempt, results)
        else:
            self._audits.settle(attempt, results, ())

    def _open(
        self, dispute: Dispute, attempt: Attempt, results: list[CallResult] | None
    ) -> None:
        """Have somebody say which of two answers is right; `results` are paid by it."""
        earlier, later = (side.peer.hex()[:8] for side in dispute.sides)
        log.error("workers %s and %s answered one call differently", earlier, later)
        held = attempt.served(results) if results is not None else None
        self._audits.open(dispute, held)
        if not self._parts.on_dispute(dispute):
            self.ruled(dispute.number, None)

    # What goes wrong with a worker, and where its calls go then.

    def _late(self, attempt: Attempt) -> None:
        log.info("worker %s is late", attempt.peer.hex()[:8])
        self._flights.close(attempt)
        self._flights.cancel(attempt)
        self._fleet.failed(attempt.peer, self._parts.clock())
        layer = attempt.progress.work.plan.layer
        self._parts.reports.note(
            attempt.peer, CheckOutcome.SILENT, layer, attempt.experts
        )
        self._elsewhere(attempt, Reason.LATE)

    def _ban_if_hopeless(self, peer: PeerId) -> None:
        if self._verdicts.is_hopeless(peer):
            self._ban(peer)

    def _ban(self, peer: PeerId) -> None:
        self._parts.accounts.withhold(peer)
        self._fleet.dropped(peer)
        self._move_all(peer, Reason.CHECK)

    def _move_all(self, peer: PeerId, reason: Reason) -> None:
        for withdrawn in self._withdrawn.of_worker(peer):
            self._forget(withdrawn)
        for attempt in self._flights.of_worker(peer):
            self._flights.close(attempt)
            self._elsewhere(attempt, reason)

    def _elsewhere(self, attempt: Attempt, reason: Reason) -> None:
        self._hedges.ended(attempt, "failed")
        self._parts.accounts.abandon(attempt.slot)
        self._move(attempt, reason)

    def _move(self, attempt: Attempt, reason: Reason) -> None:
        """Send elsewhere what is open of a call, and nobody else is asked for."""
        progress = attempt.progress
        if progress.over:
            return
        progress.tried(attempt.calls, attempt.peer)
        calls = progress.uncovered(attempt.calls)
        if calls:
            progress.work.trace.failed_over(calls)
            self._parts.counters.failed_over(reason, len(calls))
            self._place(progress, calls)
        self._finish(progress)

    # The end of a layer, and of what is out for it in vain.

    def _finish(self, progress: Progress) -> None:
        """Call off what is out in vain, and end the layer if it is complete."""
        for request in progress.out():
            attempt = None
            if not progress.wanted_of(request):
                attempt = self._flights.get(request)
            if attempt is not None:
                self._withdraw(attempt)
        progress.finish_if_complete()

    def _withdraw(self, attempt: Attempt) -> None:
        self._flights.close(attempt)
        if attempt.purpose is not Purpose.PROBE:
            self._flights.cancel(attempt)
        self._hedges.ended(attempt, "lost" if attempt.is_beaten else "failed")
        if attempt.is_beaten and attempt.purpose is Purpose.CALL:
            self._fleet.beaten(attempt.peer, self._parts.clock())
        cost = self._fleet.workers[attempt.peer].cost
        item = self._withdrawn.add(attempt, cost, self._parts.clock())
        self._flights.look_at(attempt.request, item.kept_until)

    def _outlasted(self, item: Withdrawn) -> None:
        """Note that the answer of a dispatch that was called off never came."""
        attempt = item.attempt
        cost = self._fleet.workers[attempt.peer].cost
        n_bytes = 2 * attempt.n_bytes_up
        cost.outlasted(item.at - attempt.sent_at, attempt.n_rows, n_bytes)
        self._forget(item)

    def _forget(self, item: Withdrawn) -> None:
        self._withdrawn.remove(item)
        self._parts.accounts.abandon(item.attempt.slot)
