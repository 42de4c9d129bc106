"""The dispatches that are out: numbered, sent, timed, and taken in again.

The dispatcher's hand: it decides nothing about where calls go. Rules:

- a dispatch is sent only to a worker that may be asked and can be paid; one that cannot
  be sent after all gives its serving numbers back and demotes its worker;
- while it is out its rows are its worker's queue, and its layer knows of it;
- request ids never repeat in the life of this process.

Runs on the trio thread; nothing awaits.
"""

import contextlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from mobile_worker.errors import LocalError
from mobile_worker.messages import Message
from mobile_worker.messages.membership import Cancel
from p2pmoe.backbone.attempts import (
    Attempt,
    Deadlines,
    Purpose,
    build_dispatch,
    payload_bytes,
)
from p2pmoe.backbone.audit_reports import AuditReports
from p2pmoe.backbone.audits import Dispute
from p2pmoe.backbone.counters import BackboneCounters
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.plan import WorkerCalls
from p2pmoe.backbone.progress import Progress
from p2pmoe.backbone.servings import Accounts
from p2pmoe.backbone.spot_checks import SpotChecks
from p2pmoe.backbone.trace import StepTrace
from relay.keys import PeerId

__all__ = ["DispatcherParts", "Flights"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatcherParts:
    """What a dispatcher works with; `send` queues a message and never blocks.

    `on_dispute` has somebody find out which of two answers is right, who then calls
    `Dispatcher.ruled`; False if nobody will. Without `hedging` no call is asked for
    twice, and slow workers are not probed.
    """

    send: Callable[[PeerId, Message], None]
    fleet: Fleet
    accounts: Accounts
    counters: BackboneCounters
    clock: Callable[[], float]
    random: Random
    checks: SpotChecks = field(default_factory=SpotChecks)
    on_dispute: Callable[[Dispute], bool] = lambda dispute: False
    hedging: bool = True
    reports: AuditReports = field(default_factory=AuditReports)


class Flights:
    """All dispatches that are out, by request, and moments to look at them again."""

    def __init__(self, parts: DispatcherParts) -> None:
        """Begin with nothing out."""
        self._parts = parts
        self._attempts: dict[int, Attempt] = {}
        self._moments = Deadlines()
        self._last_request = parts.random.getrandbits(48) << 8
        self.on_sooner: Callable[[], None] = lambda: None

    def __len__(self) -> int:
        """Return how many dispatches are out."""
        return len(self._attempts)

    def get(self, request: int) -> Attempt | None:
        """Return the dispatch that is out under this id, if there is one."""
        return self._attempts.get(request)

    def of_worker(self, peer: PeerId) -> list[Attempt]:
        """Return what one worker has not answered."""
        return [each for each in self._attempts.values() if each.peer == peer]

    def of_step(self, step: StepTrace) -> list[Attempt]:
        """Return what is out for one step."""
        return [
            each for each in self._attempts.values() if each.progress.work.trace is step
        ]

    def n_by_worker(self) -> Mapping[PeerId, int]:
        """Return the number of unanswered dispatches by worker."""
        return Counter(attempt.peer for attempt in self._attempts.values())

    # Out and in.

    def send(
        self, progress: Progress, message: WorkerCalls, purpose: Purpose = Purpose.CALL
    ) -> Attempt | None:
        """Send a dispatch, if its worker may be asked; None if it was not sent."""
        attempt = self._attempt(progress, message, purpose)
        if attempt is None:
            return None
        parts = self._parts
        try:
            parts.send(message.peer, build_dispatch(attempt))
        except LocalError:
            parts.accounts.abandon(attempt.slot)
            parts.fleet.failed(message.peer, attempt.sent_at)
            return None
        progress.sent(attempt.request, message.calls)
        progress.work.trace.sent(message.calls, attempt.n_bytes_up)
        cost = parts.fleet.workers[attempt.peer].cost
        cost.in_flight_rows += attempt.n_rows
        cost.n_rows_sent += attempt.n_rows
        self._attempts[attempt.request] = attempt
        self.look_at(attempt.request, attempt.deadline)
        return attempt

    def close(self, attempt: Attempt) -> None:
        """Take a dispatch in: it is answered, or nobody waits for it any more."""
        del self._attempts[attempt.request]
        attempt.progress.closed(attempt.request)
        self._parts.fleet.workers[attempt.peer].cost.in_flight_rows -= attempt.n_rows

    def cancel(self, attempt: Attempt) -> None:
        """Tell its worker that the answer is not wanted, if it can be told."""
        with contextlib.suppress(LocalError):
            self._parts.send(attempt.peer, Cancel(request=attempt.request))

    # Time.

    def look_at(self, request: int, at: float) -> None:
        """Have `due` return a request at a moment."""
        earliest = self._moments.next
        self._moments.add(at, request)
        if earliest is None or at < earliest:
            self.on_sooner()

    def due(self, now: float) -> list[int]:
        """Return the requests to look at now, answered ones among them."""
        return self._moments.due(now)

    @property
    def next_time(self) -> float | None:
        """When there is something to look at next.

        Answered requests count, so that `on_sooner` misses none.
        """
        return self._moments.next

    def _attempt(
        self, progress: Progress, message: WorkerCalls, purpose: Purpose
    ) -> Attempt | None:
        """Number a dispatch and give it its deadline; None if it may not be sent."""
        parts = self._parts
        worker = parts.fleet.workers.get(message.peer)
        if worker is None or not worker.askable:
            return None
        n_calls, n_rows = len(message.calls), message.n_rows
        slot = parts.accounts.number(message.peer, n_calls, n_rows)
        if slot is None:
            return None
        now, cost = parts.clock(), worker.cost
        n_bytes = payload_bytes(progress.work, message.calls)
        expected_s = cost.loaded_s(n_rows, n_bytes)
        left = max(0.001, progress.work.deadline - now)
        self._last_request += 1
        return Attempt(
            request=self._last_request,
            purpose=purpose,
            peer=message.peer,
            tier=message.tier,
            calls=message.calls,
            slot=slot,
            nonce=parts.random.randbytes(8),
            sent_at=now,
            deadline=now + min(cost.deadline_s(expected_s), left),
            expected_s=expected_s,
            n_bytes_up=n_bytes,
            progress=progress,
        )
