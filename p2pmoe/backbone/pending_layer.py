"""One layer's routed experts under way: started, computed, waited for, combined.

    start    remote calls fly, reads from the disk begin
    compute  RAM calls, while those are away
    finish   compute disk calls, wait for the rest, combine in fixed order

Where `ExpertPlaces.overlap` is off, `start` waits for the workers before anything else
is done: the arm of the benchmark that tells what overlap is worth.

Runs on the decode thread, which never awaits: replies of the trio side come from a
queue. A layer returns all of its rows or raises (fault B11); where an expert ran never
changes a byte (design, 02). What the disk has lost waits for a worker that holds it
(fault B03). Only under `MissingPolicy.DROP` may rows of experts that are nowhere be
left out, within its bound, and every one is counted.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.kernel import KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.disk_experts import DiskCall, DiskWork, PendingDisk
from p2pmoe.backbone.exchange import (
    CheckTicket,
    ComputeHere,
    HeldByNobody,
    LayerDone,
    LayerWork,
)
from p2pmoe.backbone.missing import rows_over
from p2pmoe.backbone.places import ExpertPlaces, Network
from p2pmoe.backbone.plan import ExpertRows, LayerPlan, Tier, rows_of
from p2pmoe.backbone.row_hashes import keep_output_hashes
from p2pmoe.backbone.speculation.stand_in import StandIns
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import DiskPolicy, MissingPolicy
from p2pmoe.errors import Cancelled, ExpertsUnavailable, NotFinite
from p2pmoe.model.combine import combine
from p2pmoe.model.experts import Routing
from p2pmoe.model.row_operations import RowOperations
from p2pmoe.weights.errors import ModelFileError

__all__ = ["LayerInput", "ScatteredPending", "StepRun"]

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRun:
    """What all layers of one step share; times are monotonic seconds."""

    places: ExpertPlaces
    step: StepTrace
    deadline: float
    patience_s: float | None
    operations: RowOperations
    stand_ins: StandIns | None = None  # taught what absent experts add


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerInput:
    """What one layer's experts are asked for: rows, and coded once; their experts."""

    hidden: Floats
    coded: ExpertInput
    routing: Routing
    rows: Mapping[int, Indices]  # by expert, ascending
    at_hand: Mapping[int, ExpertWeights]


class ScatteredPending:
    """One layer under way; for the decode thread that began it."""

    def __init__(self, run: StepRun, plan: LayerPlan, asked: LayerInput) -> None:
        """Hold a plan whose calls have not been started."""
        self._run = run
        self._places = run.places
        self._step = run.step
        self._plan = plan
        self._asked = asked
        self._values: dict[int, Floats] = {}
        self._left_out: set[int] = set()
        self._work: LayerWork | None = None
        self._reads: PendingDisk | None = None
        self._has_computed = False

    def start(self) -> None:
        """Send remote calls and begin to read; ExpertsUnavailable if none can come."""
        plan, places = self._plan, self._places
        if plan.stranded and places.missing is not MissingPolicy.WAIT:
            self._without(plan.stranded, "nobody holds")
            plan = replace(plan, stranded=())
        if places.network is not None and plan.waits:
            has_disk = places.policy is not DiskPolicy.OFF
            self._work = self._submit(places.network, plan, local_allowed=has_disk)
            if not places.overlap:
                self._await_rest(self._work)
                self._work = None
        if plan.disk:
            self._reads = self._read(plan.disk)

    def compute(self) -> None:
        """Compute the calls whose weights are in memory; NotFinite."""
        if self._has_computed:
            return
        self._has_computed = True
        if self._plan.ram:
            self._values.update(self._computed(self._plan.ram))
            self._step.called(Tier.RAM, self._plan.ram)

    def is_ready(self) -> bool:
        """Tell whether workers have answered, or none was asked."""
        return self._work is None or not self._work.replies.empty()

    def notify(self, ring: Callable[[], None]) -> None:
        """Have `ring` called when workers have answered, now if none was asked."""
        if self._work is None:
            ring()
        else:
            self._work.replies.notify(ring)

    def abandon(self) -> None:
        """Give the reads back; whoever runs the step has its dispatches cancelled."""
        if self._reads is not None:
            self._reads.abandon()

    def finish(self) -> Floats:
        """Return the mixed sum f32 [n_tokens, n_embd].

        Raises:
            NotFinite: a value is not finite, computed here as well.
            ExpertsUnavailable: nobody could compute an expert in time.
            Cancelled: the step was cancelled meanwhile.
        """
        try:
            self.compute()
            if self._reads is not None:
                self._take_reads(self._plan.disk, self._reads)
            if self._work is not None:
                self._await_rest(self._work)
        finally:
            if self._reads is not None:
                self._reads.abandon()
        return self._combined()

    def _combined(self) -> Floats:
        rows = self._asked.rows
        outputs = {e: (rows[e], values) for e, values in self._values.items()}
        keep_output_hashes(self._step, self._plan.layer, outputs)
        if self._run.stand_ins is not None and not self._left_out:
            self._run.stand_ins.teach_from(
                self._plan.layer,
                self._asked.hidden,
                self._asked.routing,
                outputs,
                self._places.hot.layer(self._plan.layer),
            )
        for expert in self._left_out:  # adding 0 is leaving out, to the bit
            nothing = np.zeros((len(rows[expert]), self._places.n_embd), np.float32)
            outputs[expert] = (rows[expert], nothing)
        return combine(self._asked.routing, outputs, self._run.operations)

    # The network's part.

    def _submit(
        self, network: Network, plan: LayerPlan, *, local_allowed: bool
    ) -> LayerWork:
        run, places = self._run, self._places
        work = LayerWork(
            plan=plan,
            rows=self._asked.coded,
            n_embd=places.n_embd,
            profile=places.profile,
            deadline=run.deadline,
            patience_s=run.patience_s,
            missing=places.missing,
            local_allowed=local_allowed,
            trace=run.step,
        )
        network.submit(work)
        return work

    def _await_rest(self, work: LayerWork, *, lost: bool = False) -> None:
        """Take replies until the layer is over; `lost` calls cannot come back here."""
        waited_s = 0.0
        try:
            while True:
                start = time.perf_counter()
                reply = work.replies.get()
                waited_s += time.perf_counter() - start
                if isinstance(reply, ComputeHere):
                    if lost:
                        self._without(reply.calls, "the model file has lost")
                    else:
                        self._compute_here(reply.calls)
                elif isinstance(reply, HeldByNobody):
                    self._without(reply.calls, "nobody holds")
                elif isinstance(reply, LayerDone):
                    break
                else:
                    raise reply.error
        finally:
            self._step.waited(work.plan.away, waited_s)
        self._values.update(reply.values)
        for ticket in reply.checks:
            self._check(ticket)

    def _without(self, calls: Sequence[ExpertRows], why: str) -> None:
        """Go on without experts that are nowhere, if the policy and its bound allow."""
        places, layer = self._places, self._plan.layer
        experts = ", ".join(str(call.expert) for call in calls)
        line = f"layer {layer}: {why} expert {experts}"
        if places.missing is not MissingPolicy.DROP:
            raise ExpertsUnavailable(line, rows=rows_of(calls))
        left_out = self._left_out | {call.expert for call in calls}
        over = rows_over(self._asked.routing, left_out, places.drop_bound)
        if over:
            raise ExpertsUnavailable(
                f"{line}, and more than {places.drop_bound:g} of a token's routed "
                "weight goes to such experts",
                rows=over,
            )
        self._left_out = left_out
        self._step.dropped(calls)

    # What is computed here.

    def _compute_here(self, calls: Iterable[ExpertRows]) -> None:
        """Compute calls that came back."""
        calls = tuple(calls)
        ram = [call for call in calls if call.expert in self._asked.at_hand]
        disk = [call for call in calls if call.expert not in self._asked.at_hand]
        if ram:
            self._values.update(self._computed(ram))
            self._step.called(Tier.RAM, ram)
        if disk:
            self._take_reads(disk, self._read(disk))

    def _read(self, calls: Sequence[ExpertRows]) -> PendingDisk:
        places, asked = self._places, self._asked
        is_one_row = len(asked.routing.experts) == 1
        return places.disk.begin(
            DiskWork(
                layer=self._plan.layer,
                calls=[
                    DiskCall(
                        expert=call.expert,
                        rows=None if is_one_row else asked.rows[call.expert],
                    )
                    for call in calls
                ],
                coded=asked.coded,
                profile=places.profile,
                kernel=places.kernel,
            )
        )

    def _take_reads(self, calls: Sequence[ExpertRows], reads: PendingDisk) -> None:
        """Take in what the disk gives, and see to what it has lost."""
        if self._step.cancelled:
            reads.abandon()
            raise Cancelled("the request was cancelled")
        try:
            answer = reads.finish()
        except NonFinite as error:
            raise self._not_finite(calls, error) from error
        step, lost = self._step, []
        self._values.update(answer.values)
        for call in calls:
            if call.expert in answer.values:
                step.called(Tier.DISK, (call,))
                step.read(call, answer.read_bytes.get(call.expert, 0))
            else:
                lost.append(call)
        step.faulted(calls, answer.minor_faults, answer.major_faults)
        if lost:
            self._from_holders(tuple(lost))

    def _from_holders(self, calls: tuple[ExpertRows, ...]) -> None:
        """Have workers compute what the disk has lost, once there are any."""
        network = self._places.network
        if network is None:
            self._without(calls, "the model file has lost")
            return
        plan = LayerPlan(layer=self._plan.layer, stranded=calls)
        work = self._submit(network, plan, local_allowed=False)
        self._await_rest(work, lost=True)

    def _computed(self, calls: Sequence[ExpertRows]) -> dict[int, Floats]:
        """Compute calls with weights in memory, or for checks from disk, blocking."""
        places, asked = self._places, self._asked
        is_one_row = len(asked.routing.experts) == 1
        jobs = [
            KernelCall(
                weights=self._weights(call.expert),
                rows=None if is_one_row else asked.rows[call.expert],
            )
            for call in calls
        ]
        start = time.perf_counter()
        try:
            results = places.kernel.expert_values(jobs, asked.coded, places.profile)
        except NonFinite as error:
            raise self._not_finite(calls, error) from error
        n_rows = sum(len(call.rows) for call in calls)
        places.cost.observe_compute(time.perf_counter() - start, n_rows)
        return {call.expert: y for call, y in zip(calls, results, strict=True)}

    def _not_finite(self, calls: Sequence[ExpertRows], error: NonFinite) -> NotFinite:
        """Return the error that names the experts and rows whose results are not."""
        places, experts, rows = self._places, [], set()
        for call in calls:
            weights = self._weights(call.expert)
            for row in call.rows:
                only = KernelCall(weights=weights, rows=np.array([row], np.int64))
                try:
                    places.kernel.expert_values(
                        [only], self._asked.coded, places.profile
                    )
                except NonFinite:
                    rows.add(row)
                    experts.append(call.expert)
        named = ", ".join(str(expert) for expert in sorted(set(experts)))
        return NotFinite(
            f"layer {self._plan.layer}, expert {named or '?'}: {error}", rows=rows
        )

    def _weights(self, expert: int) -> ExpertWeights:
        resident = self._asked.at_hand.get(expert)
        if resident is not None:
            return resident
        return self._places.disk.load(ExpertId(self._plan.layer, expert))

    def _check(self, ticket: CheckTicket) -> None:
        """Compare one call of a remote answer; if it differs, take none of them."""
        network = self._places.network
        if network is None:
            return
        sample = ticket.sample
        try:
            mine = self._computed([sample])[sample.expert]
        except ModelFileError:
            network.report(ticket, None)
            return
        passed = mine.tobytes() == self._values[sample.expert].tobytes()
        network.report(ticket, passed)
        if not passed:
            for call in ticket.calls:
                del self._values[call.expert]
            try:
                self._values.update(self._computed(ticket.calls))
            except ModelFileError:
                self._from_holders(ticket.calls)
