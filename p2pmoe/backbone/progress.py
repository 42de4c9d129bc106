"""How far one layer's remote part has come: each expert open, answered or handed back.

Invariant, whatever happens in whatever order: an expert leaves `open` exactly once,
with its rows or back to the decode thread; `LayerDone` is sent when nothing is open,
and after it (or after `LayerFailed`) nothing changes any more (faults B11, B32).
Several dispatches may be out for one expert (hedges): the first answer is taken, and
kept by its bytes for comparison with the others. What another dispatch is out for is
not sent elsewhere.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from mobile_worker.arithmetic.coding import Floats
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.exchange import (
    CheckTicket,
    ComputeHere,
    HeldByNobody,
    LayerDone,
    LayerFailed,
    LayerWork,
    Reason,
)
from p2pmoe.backbone.fleet import Fleet
from p2pmoe.backbone.outputs import CallResult
from p2pmoe.backbone.plan import (
    ExpertRows,
    LayerPlan,
    LayerQuestion,
    plan_layer,
    rows_of,
)
from p2pmoe.backbone.servings import ServingSlot
from p2pmoe.config import DiskPolicy
from p2pmoe.errors import ExpertsUnavailable, RequestFailed
from relay.keys import PeerId

__all__ = ["Progress", "Taken"]

MAX_FAILED_WORKERS = 3


class Taken(NamedTuple):
    """An answer for one call: whose it was, its serving number, its coded bytes."""

    slot: ServingSlot
    serving: int
    coded: bytes

    @property
    def peer(self) -> PeerId:
        """The worker that gave it."""
        return self.slot.peer


class Progress:
    """The state of one `LayerWork` on the trio side."""

    __slots__ = (
        "_checks",
        "_excused",
        "_failed_on",
        "_out",
        "_taken",
        "_tried",
        "_values",
        "gives_up_at",
        "open",
        "over",
        "stranded",
        "work",
    )

    _values: dict[int, Floats]

    def __init__(self, work: LayerWork) -> None:
        """Begin with every remote and stranded call of the plan open."""
        self.work = work
        self.open: dict[int, ExpertRows] = {
            call.expert: call for message in work.plan.remote for call in message.calls
        }
        self.open.update({call.expert: call for call in work.plan.stranded})
        self.stranded: dict[int, ExpertRows] = {}
        self.over = False
        self.gives_up_at = work.deadline  # moments, for stranded calls
        self._values = {}
        self._checks: list[CheckTicket] = []
        self._tried: dict[int, set[PeerId]] = {}
        self._failed_on: dict[int, set[PeerId]] = {}
        self._excused: set[PeerId] = set()
        self._out: dict[int, frozenset[int]] = {}  # experts by request
        self._taken: dict[int, Taken] = {}

    @property
    def taken(self) -> Mapping[int, Taken]:
        """The answers that were taken, by expert."""
        return self._taken

    def sent(self, request: int, calls: Iterable[ExpertRows]) -> None:
        """Note that a dispatch is out for these calls."""
        self._out[request] = frozenset(call.expert for call in calls)

    def closed(self, request: int) -> None:
        """Note that a dispatch is out no more, whatever came of it."""
        self._out.pop(request, None)

    def wanted_of(self, request: int) -> bool:
        """Whether a dispatch that is out may still bring an open call."""
        return not self.over and not self._out[request].isdisjoint(self.open)

    def out(self) -> list[int]:
        """Return the requests that are out."""
        return list(self._out)

    def uncovered(
        self, calls: Iterable[ExpertRows], *, but: int | None = None
    ) -> list[ExpertRows]:
        """Return the open ones of some calls that no request, `but` one, is out for."""
        covered: set[int] = set()
        for request, experts in self._out.items():
            if request != but:
                covered |= experts
        return [c for c in calls if c.expert in self.open and c.expert not in covered]

    def take(
        self, results: Sequence[CallResult], slot: ServingSlot
    ) -> list[CallResult]:
        """Take the rows of open calls in; return those that were taken.

        `results` are all of an answer, in the order of its serving numbers.
        """
        fresh: list[CallResult] = []
        for serving, result in enumerate(results, start=slot.first):
            expert = result.call.expert
            if self.over or expert not in self.open:
                continue
            del self.open[expert]
            self._values[expert] = result.values
            self._taken[expert] = Taken(slot, serving, result.coded)
            fresh.append(result)
        return fresh

    def check(self, ticket: CheckTicket) -> None:
        """Have the decode thread compare an answer with its own."""
        self._checks.append(ticket)

    def hand_back(self, calls: Iterable[ExpertRows], reason: Reason) -> None:
        """Give open calls to the decode thread for good."""
        calls = tuple(call for call in calls if call.expert in self.open)
        if self.over or not calls:
            return
        for call in calls:
            del self.open[call.expert]
        self.work.replies.put(ComputeHere(calls=calls, reason=reason))

    def tried(self, calls: Iterable[ExpertRows], peer: PeerId) -> None:
        """Do not ask this worker again for these calls, unless there is no other."""
        for call in calls:
            self._tried.setdefault(call.expert, set()).add(peer)

    def failed_on(self, calls: Iterable[ExpertRows], peer: PeerId) -> None:
        """Note that this worker answered with an error of its own."""
        for call in calls:
            self._failed_on.setdefault(call.expert, set()).add(peer)

    def replan(self, calls: Iterable[ExpertRows], fleet: Fleet) -> LayerPlan:
        """Return where open calls can go now: other holders, else here, else nowhere.

        Calls that another dispatch is out for stay with it. Those that three workers
        failed come here whatever the disk policy: they are never sent round the whole
        network (fault B32).
        """
        wanted: list[ExpertRows] = []
        poisoned: list[ExpertRows] = []
        for call in self.uncovered(calls):
            failures = self._failed_on.get(call.expert, set())
            if len(failures) >= MAX_FAILED_WORKERS:
                poisoned.append(call)
                self._excused |= failures
            else:
                wanted.append(call)
        self.hand_back(poisoned, Reason.ERROR)
        local = DiskPolicy.FALLBACK if self.work.local_allowed else DiskPolicy.OFF
        return self._plan(wanted, fleet, local)

    def excused(self) -> set[PeerId]:
        """Return once who failed a call that all fail: it was not their fault."""
        excused, self._excused = self._excused, set()
        return excused

    def plan_hedge(
        self, calls: Sequence[ExpertRows], fleet: Fleet, slow: PeerId
    ) -> LayerPlan | None:
        """Return which other workers can be asked for all of some calls, if any can."""
        plan = self._plan(calls, fleet, DiskPolicy.OFF, but=(slow,))
        return None if plan.stranded or not plan.remote else plan

    def _plan(
        self,
        calls: Sequence[ExpertRows],
        fleet: Fleet,
        disk: DiskPolicy,
        but: Collection[PeerId] = (),
    ) -> LayerPlan:
        layer, barred = self.work.plan.layer, self.work.barred
        table = fleet.holders(layer)
        holders = {
            call.expert: [
                holder
                for holder in table.get(call.expert, ())
                if holder.peer not in self._tried.get(call.expert, ())
                and holder.peer not in but
                and holder.peer not in barred
            ]
            for call in calls
        }
        return plan_layer(
            LayerQuestion(
                layer=layer,
                calls=calls,
                at_hand=(),
                holders=holders,
                disk=disk,
                local=LocalCost(),
                row_bytes=self.work.n_embd,
                expert_bytes=0,
            )
        )

    def strand(self, calls: Iterable[ExpertRows], now: float) -> None:
        """Keep calls that nobody can compute now; all workers may be asked again."""
        for call in calls:
            if call.expert in self.open:
                self.stranded[call.expert] = call
        patience_s = self.work.patience_s
        if self.stranded and patience_s is not None:
            self.gives_up_at = min(self.gives_up_at, now + patience_s)

    def held_by_nobody(self, calls: Iterable[ExpertRows]) -> None:
        """Give open calls back that nobody holds, under a policy that does not wait."""
        calls = tuple(call for call in calls if call.expert in self.open)
        if self.over or not calls:
            return
        for call in calls:
            del self.open[call.expert]
        self.work.replies.put(HeldByNobody(calls=calls))

    def unstrand(self) -> tuple[ExpertRows, ...]:
        """Take the stranded calls out, to be planned again with all workers."""
        calls = tuple(self.stranded.values())
        self.stranded.clear()
        for call in calls:
            self._tried.pop(call.expert, None)
        return calls

    def unavailable(self) -> ExpertsUnavailable:
        """Return the error of a layer whose stranded calls found nobody in time."""
        experts = ", ".join(str(index) for index in sorted(self.stranded))
        return ExpertsUnavailable(
            f"layer {self.work.plan.layer}: no holder of expert {experts} in time",
            rows=rows_of(self.stranded.values()),
        )

    def finish_if_complete(self) -> bool:
        """End the layer if nothing is open; True if it is over."""
        if not self.over and not self.open:
            self.over = True
            done = LayerDone(values=self._values, checks=tuple(self._checks))
            self.work.replies.put(done)
        return self.over

    def fail(self, error: RequestFailed) -> None:
        """End the layer with an error; what is still open will not be taken."""
        if not self.over:
            self.over = True
            self.stranded.clear()
            self.work.replies.put(LayerFailed(error=error))
