"""Gathers the facts that the view shows, from the parts that know them; no I/O."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from mobile_worker.contribute.gathering import Gatherer
from mobile_worker.contribute.leases import LeaseBook
from mobile_worker.contribute.market_side import MarketSide
from mobile_worker.contribute.states import Facts, Status, Use, status_of
from mobile_worker.governor.governor import Governor
from mobile_worker.serve.held import HeldExperts
from mobile_worker.serve.server import ExpertServer
from mobile_worker.servings.accounts import Accounts
from mobile_worker.servings.settling import Settling
from mobile_worker.shards.store import ShardStore

__all__ = ["FigureParts", "Figures", "Report"]

Report = Callable[[Status, Facts], None]

_MINUTE_S = 60.0
_REPORT_S = 1.0
_DISK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureParts:
    """Where the facts come from."""

    leases: LeaseBook
    held: HeldExperts
    gatherer: Gatherer
    server: ExpertServer
    accounts: Accounts
    settling: Settling
    governor: Governor
    market_side: MarketSide
    store: ShardStore
    max_disk_bytes: int


class Figures:
    """Keeps `Facts` up to date and reports: at each change of state, and each second.

    `facts` is one object for the whole life of a worker; whoever is told of it reads.
    """

    def __init__(self, report: Report) -> None:
        """Report through `report`; `connect` once there is something to look at."""
        self.facts = Facts()
        self.status: Status | None = None
        self._report = report
        self._parts: FigureParts | None = None
        self._last_dispatch_at = float("-inf")
        self._served: deque[tuple[float, int]] = deque()
        self._reported_at = float("-inf")
        self._counted = (0, 0)  # servings, micro-credits: counted towards the day
        self._disk: tuple[float, int] = (float("-inf"), 0)  # looked at, bytes

    def connect(self, parts: FigureParts) -> None:
        """Look at these parts from now on."""
        self._parts = parts

    def doing(self, what: str, now: float) -> None:
        """Tell what the start is at."""
        self.facts.doing = what
        self.update(now)

    def relay(self, *, up: bool, detail: str) -> None:
        """Note the state of the link to the relay."""
        self.facts.relay_is_up, self.facts.relay_detail = up, detail

    def dispatched(self, now: float) -> None:
        """Note that a dispatch came."""
        self._last_dispatch_at = now

    def update(self, now: float) -> None:
        """Read the facts again, and report if it is time."""
        if self._parts is not None:
            self._read(self._parts, now)
        before, self.status = self.status, status_of(self.facts, now, self.status)
        changed = before is None or before.state != self.status.state
        if changed or now - self._reported_at >= _REPORT_S:
            self._reported_at = now
            self._report(self.status, self.facts)

    def _read(self, parts: FigureParts, now: float) -> None:
        facts = self.facts
        leased = {
            name: parts.leases.experts_of(name) for name in parts.leases.manifests()
        }
        facts.n_leased = sum(len(experts) for experts in leased.values())
        facts.n_held = facts.leased_bytes = 0
        for name, experts in leased.items():
            model = parts.held.model(name)
            if model is not None:
                facts.n_held += len(experts & model.weights.keys())
                facts.leased_bytes += sum(
                    model.experts[e].n_bytes for e in experts if e in model.experts
                )
        facts.fetched_bytes = parts.held.used_bytes
        facts.problem = parts.gatherer.problem
        facts.idle_s = now - self._last_dispatch_at
        counts, totals = parts.server.counts, parts.accounts.totals
        facts.served, facts.refused = counts.servings, counts.refused
        facts.accepted, facts.signed = totals.accepted, totals.signed
        facts.signed_uc = totals.signed_uc
        facts.rejected = parts.settling.earnings.rejected
        facts.waiting_to_file = parts.settling.n_waiting
        self._served.append((now, counts.servings))
        while self._served[0][0] < now - _MINUTE_S:
            self._served.popleft()
        facts.served_last_minute = counts.servings - self._served[0][1]
        self._read_day(parts)
        self._read_governor(parts, now)

    def _read_day(self, parts: FigureParts) -> None:
        facts, record = self.facts, parts.governor.record
        servings, uc = self._counted
        self._counted = (facts.served, facts.signed_uc)
        record.add(servings=facts.served - servings, uc=facts.signed_uc - uc)
        facts.served_today, facts.earned_today_uc = record.day_servings, record.day_uc
        facts.rejected_by_reason = parts.settling.earnings.reasons

    def _read_governor(self, parts: FigureParts, now: float) -> None:
        facts, governor = self.facts, parts.governor
        facts.pauses, facts.duty = governor.decision.pauses, governor.decision.duty
        facts.readings = governor.readings
        facts.use = self._use(parts, now)
        facts.is_asking = parts.market_side.is_asking
        standing = parts.market_side.standing
        facts.kicked, facts.probation = standing.kicked, standing.probation
        facts.kicked_ends = facts.probation_ends = standing.ends_when(now)

    def _use(self, parts: FigureParts, now: float) -> Use:
        governor = parts.governor
        if now - self._disk[0] >= _DISK_S:
            self._disk = (now, parts.store.used_bytes)
        up_bytes_s, down_bytes_s = governor.rates()
        return Use(
            cpus=governor.readings.own_cpus or 0.0,
            max_cpus=governor.decision.n_threads,
            memory_bytes=parts.held.used_bytes,
            max_memory_bytes=parts.held.max_bytes,
            disk_bytes=self._disk[1],
            max_disk_bytes=parts.max_disk_bytes,
            up_bytes_s=up_bytes_s,
            max_up_bytes_s=governor.limits.up_bytes_s,
            down_bytes_s=down_bytes_s,
            day_bytes=governor.record.day_bytes,
            max_day_bytes=governor.limits.daily_bytes,
        )
