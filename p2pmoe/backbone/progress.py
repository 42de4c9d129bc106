"""How far one layer's remote part has come: each expert open, answered or handed back.

Invariant, whatever happens in whatever order: an expert leaves `open` exactly once,
with its rows or back to the decode thread; `LayerDone` is sent when nothing is open,
and after it (or after `LayerFailed`) nothing changes any more (faults B11, B32).
"""

from collections.abc import Iterable, Sequence

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
from p2pmoe.config import DiskPolicy
from p2pmoe.errors import ExpertsUnavailable, RequestFailed
from relay.keys import PeerId

__all__ = ["Progress"]

MAX_FAILED_WORKERS = 3


class Progress:
    """The state of one `LayerWork` on the trio side."""

    __slots__ = (
        "_checks",
        "_failed_on",
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

    def take(self, results: Sequence[CallResult]) -> bool:
        """Take rows in; False (and nothing taken) unless each call is still open."""
        if self.over or any(r.call.expert not in self.open for r in results):
            return False
        for result in results:
            del self.open[result.call.expert]
            self._values[result.call.expert] = result.values
        return True

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

        Calls that three workers failed come here whatever the disk policy: they are
        never sent round the whole network (fault B32).
        """
        wanted: list[ExpertRows] = []
        poisoned: list[ExpertRows] = []
        for call in calls:
            if call.expert in self.open:
                failures = len(self._failed_on.get(call.expert, ()))
                (poisoned if failures >= MAX_FAILED_WORKERS else wanted).append(call)
        self.hand_back(poisoned, Reason.ERROR)
        table = fleet.holders(self.work.plan.layer)
        holders = {
            call.expert: [
                holder
                for holder in table.get(call.expert, ())
                if holder.peer not in self._tried.get(call.expert, ())
            ]
            for call in wanted
        }
        local = DiskPolicy.FALLBACK if self.work.local_allowed else DiskPolicy.OFF
        return plan_layer(
            LayerQuestion(
                layer=self.work.plan.layer,
                calls=wanted,
                at_hand=(),
                holders=holders,
                disk=local,
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
