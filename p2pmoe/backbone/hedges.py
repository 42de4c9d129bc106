"""Second dispatches: for what a worker is slow with, and to see how slow one still is.

    sent    a call is out: when to look at it (its worker's p95), if others hold it all
    look    it is not answered yet: hedge it now, look later, or leave it
    probe   ask a slow worker for one call of a layer besides, out of anybody's way

Who may be hedged when is decided by hedging.py, which has no state but the budget. A
dispatch is hedged once, and only as a whole: a layer that waits for one call of it
anyway gains nothing. Hedges and probes share one budget of 5 % of dispatches.
"""

from p2pmoe.backbone.attempts import Attempt, Purpose, payload_bytes
from p2pmoe.backbone.flights import DispatcherParts, Flights
from p2pmoe.backbone.hedging import HEDGE_FLOOR_S, HedgeBudget, hedge_after
from p2pmoe.backbone.plan import LayerPlan, WorkerCalls
from p2pmoe.backbone.progress import Progress

__all__ = ["Hedges"]


class Hedges:
    """Decides on second dispatches and sends them."""

    def __init__(self, parts: DispatcherParts, flights: Flights) -> None:
        """Begin with an empty budget."""
        self._parts = parts
        self._flights = flights
        self._budget = HedgeBudget()

    def sent(self, attempt: Attempt) -> None:
        """Note a dispatch that is no hedge, and when to look whether it is late."""
        if not self._parts.hedging:
            return
        self._budget.earn()
        fleet, layer = self._parts.fleet, attempt.progress.work.plan.layer
        p95 = fleet.workers[attempt.peer].cost.p95()
        if p95 is None:
            return
        at = attempt.sent_at + max(HEDGE_FLOOR_S, p95 * attempt.expected_s)
        if at >= attempt.deadline:  # it goes elsewhere before that
            return
        holders = fleet.holders(layer)
        if all(len(holders.get(call.expert, ())) > 1 for call in attempt.calls):
            self._flights.look_at(attempt.request, at)

    def look(self, attempt: Attempt, now: float) -> None:
        """Hedge a dispatch that is out, if that pays by now."""
        plan = self._alternative(attempt)
        tail = self._parts.fleet.workers[attempt.peer].cost.tail()
        if plan is None or not tail:
            return
        other_s = max(self._expected_s(attempt, message) for message in plan.remote)
        at = attempt.sent_at + hedge_after(tail, attempt.expected_s, other_s)
        if at <= now and not self._budget.spend(len(plan.remote)):
            at = now + max(HEDGE_FLOOR_S, other_s)
        if at > now:
            if at < attempt.deadline:
                self._flights.look_at(attempt.request, at)
            return
        for message in plan.remote:
            hedge = self._flights.send(attempt.progress, message, Purpose.HEDGE)
            if hedge is None:
                self._parts.counters.hedges["failed"] += 1
        attempt.progress.work.trace.hedged(attempt.calls)

    def probe(self, progress: Progress) -> None:
        """Ask a slow worker, if one is due, for one call that another is asked for."""
        fleet, layer = self._parts.fleet, progress.work.plan.layer
        if not fleet.slow:
            return
        now = self._parts.clock()
        for message in progress.work.plan.remote:
            for call in message.calls:
                slow = fleet.to_probe(layer, call.expert, now)
                if slow is None or slow.peer in {message.peer, *progress.work.barred}:
                    continue
                if self._parts.accounts.room(slow.peer) and self._budget.spend(1):
                    only = WorkerCalls(peer=slow.peer, tier=slow.tier, calls=(call,))
                    fleet.probed(slow.peer, now)
                    self._flights.send(progress, only, Purpose.PROBE)
                    self._parts.counters.hedges["probe"] += 1
                return

    def ended(self, attempt: Attempt, outcome: str) -> None:
        """Count what became of a hedge: won, lost or failed."""
        if attempt.purpose is Purpose.HEDGE:
            self._parts.counters.hedges[outcome] += 1

    def _alternative(self, attempt: Attempt) -> LayerPlan | None:
        """Return who else can be asked for all that is open, if nobody is yet."""
        progress = attempt.progress
        if attempt.purpose is not Purpose.CALL or progress.over:
            return None
        wanted = [call for call in attempt.calls if call.expert in progress.open]
        alone = progress.uncovered(wanted, but=attempt.request)
        if not wanted or len(alone) < len(wanted):
            return None
        plan = progress.plan_hedge(wanted, self._parts.fleet, attempt.peer)
        if plan is None:
            return None
        room = self._parts.accounts.room
        has_room = all(room(m.peer) >= len(m.calls) for m in plan.remote)
        return plan if has_room else None

    def _expected_s(self, attempt: Attempt, message: WorkerCalls) -> float:
        cost = self._parts.fleet.workers[message.peer].cost
        n_bytes = payload_bytes(attempt.progress.work, message.calls)
        return cost.loaded_s(message.n_rows, n_bytes)
