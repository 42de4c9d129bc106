"""The layer's routed experts, wherever they are: an `ExpertCaller` for a decode thread.

    begin    plan the layer, code its rows once, hand the remote part to the dispatcher
    finish   compute RAM and disk calls, wait for the rest, combine in fixed order

Everything here runs on the decode thread, which never awaits: it hands a `LayerWork`
over by `submit` and reads its replies from a queue. Without a `submit` (no network)
nothing is ever remote and this is the single-process oracle. A layer returns all of its
rows or raises (fault B11); where an expert ran never changes a byte (design, 02). What
the disk has lost waits for a worker that holds it, within the request's deadline
(fault B03).
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.kernel import Kernel, KernelCall
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.arithmetic.profiles import Profile, result_row_bytes
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.cost import LocalCost
from p2pmoe.backbone.disk import DiskTier
from p2pmoe.backbone.exchange import (
    CheckTicket,
    ComputeHere,
    LayerDone,
    LayerWork,
)
from p2pmoe.backbone.experts_at_hand import HotSet
from p2pmoe.backbone.plan import (
    ExpertRows,
    Holder,
    LayerPlan,
    LayerQuestion,
    Tier,
    plan_layer,
    rows_of,
)
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.backbone.use import UseCounts
from p2pmoe.config import DiskPolicy
from p2pmoe.errors import Cancelled, ExpertsUnavailable, NotFinite
from p2pmoe.model.combine import combine, rows_by_expert
from p2pmoe.model.experts import Routing
from p2pmoe.model.native_operations import operations_for
from p2pmoe.weights.errors import ModelFileError
from p2pmoe.weights.expert_file import ExpertFile

__all__ = [
    "ExpertPlaces",
    "Holders",
    "Network",
    "ScatteredExperts",
    "ScatteredPending",
]

Indices = npt.NDArray[np.int64]


class Holders(Protocol):
    """Who can be asked for which expert; a `Fleet` is one."""

    def holders(self, layer: int) -> Mapping[int, tuple[Holder, ...]]:
        """Return the askable holders of each expert of a layer (any thread)."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """The way to remote experts; both callables may be called from any thread."""

    fleet: Holders
    submit: Callable[[LayerWork], None]
    report: Callable[[CheckTicket, bool | None], None]  # None: it could not be compared


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertPlaces:
    """Everything that can compute an expert, shared by all lanes."""

    kernel: Kernel
    profile: Profile
    n_embd: int
    file: ExpertFile
    hot: HotSet
    disk: DiskTier
    policy: DiskPolicy
    cost: LocalCost
    use: UseCounts
    network: Network | None = None


class ScatteredExperts:
    """The experts of one step; one decode thread at a time."""

    def __init__(
        self,
        places: ExpertPlaces,
        step: StepTrace,
        deadline: float,
        patience_s: float | None = None,
    ) -> None:
        """Serve one step; `deadline` is monotonic seconds.

        A layer waits at most `patience_s` for experts that nobody holds, None until the
        deadline.
        """
        self.places = places
        self.step = step
        self.deadline = deadline
        self.patience_s = patience_s
        self.operations = operations_for(places.kernel)

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> "ScatteredPending":
        """Plan a layer and send its remote calls; Cancelled, NonFinite."""
        if self.step.cancelled:
            raise Cancelled("the request was cancelled")
        places = self.places
        places.use.add(layer, routing.experts)
        rows = rows_by_expert(routing)
        at_hand = places.hot.layer(layer)
        plan = self._plan(layer, rows, at_hand)
        coded = places.file.code(layer, hidden, places.kernel)
        work = None
        if places.network is not None and plan.waits:
            has_disk = places.policy is not DiskPolicy.OFF
            work = self.submit(places.network, plan, coded, local_allowed=has_disk)
        return ScatteredPending(
            caller=self,
            plan=plan,
            coded=coded,
            rows=rows,
            at_hand=at_hand,
            routing=routing,
            work=work,
        )

    def submit(
        self,
        network: Network,
        plan: LayerPlan,
        coded: ExpertInput,
        *,
        local_allowed: bool,
    ) -> LayerWork:
        """Hand the remote part of a plan to the dispatcher."""
        work = LayerWork(
            plan=plan,
            rows=coded,
            n_embd=self.places.n_embd,
            profile=self.places.profile,
            deadline=self.deadline,
            local_allowed=local_allowed,
            trace=self.step,
        )
        network.submit(work)
        return work

    def _plan(
        self,
        layer: int,
        rows: Mapping[int, Indices],
        at_hand: Mapping[int, ExpertWeights],
    ) -> LayerPlan:
        places = self.places
        network = places.network
        width = places.n_embd * 36 // 32 + result_row_bytes(
            places.profile, places.n_embd
        )
        return plan_layer(
            LayerQuestion(
                layer=layer,
                calls=[
                    ExpertRows(expert=expert, rows=tuple(own.tolist()))
                    for expert, own in rows.items()
                ],
                at_hand=at_hand,
                holders={} if network is None else network.fleet.holders(layer),
                disk=places.policy if network is not None else DiskPolicy.FALLBACK,
                local=places.cost,
                row_bytes=width,
                expert_bytes=places.hot.sizes.get(ExpertId(layer, 0), 0),
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ScatteredPending:
    """One layer under way."""

    caller: ScatteredExperts
    plan: LayerPlan
    coded: ExpertInput
    rows: Mapping[int, Indices]
    at_hand: Mapping[int, ExpertWeights]
    routing: Routing
    work: LayerWork | None

    def finish(self) -> Floats:
        """Return the mixed sum f32 [n_tokens, n_embd].

        Raises:
            NotFinite: a value is not finite, computed here as well.
            ExpertsUnavailable: nobody could compute an expert before the deadline.
            Cancelled: the request was cancelled meanwhile.
        """
        values: dict[int, Floats] = {}
        self._compute_here(self.plan.ram, values)
        self._compute_here(self.plan.disk, values)
        if self.work is not None:
            self._await_rest(self.work, values)
        outputs = {e: (self.rows[e], v) for e, v in values.items()}
        return combine(self.routing, outputs, self.caller.operations)

    def _await_rest(
        self, work: LayerWork, values: dict[int, Floats], *, lost: bool = False
    ) -> None:
        """Take replies until the layer is over; `lost` calls cannot come back here."""
        waited_s = 0.0
        while True:
            start = time.perf_counter()
            reply = work.replies.get()
            waited_s += time.perf_counter() - start
            if isinstance(reply, ComputeHere):
                if lost:
                    raise self._unavailable(reply.calls)
                self._compute_here(reply.calls, values)
            elif isinstance(reply, LayerDone):
                values.update(reply.values)
                self.caller.step.waited(work.plan.away, waited_s)
                for ticket in reply.checks:
                    self._check(ticket, values)
                return
            else:
                raise reply.error

    def _compute_here(
        self, calls: Iterable[ExpertRows], values: dict[int, Floats]
    ) -> None:
        """Compute calls from RAM or disk and count them by tier."""
        step, ram, lost = self.caller.step, [], []
        for call in calls:
            if call.expert in self.at_hand:
                ram.append(call)
                continue
            if step.cancelled:
                raise Cancelled("the request was cancelled")
            try:
                values.update(self._computed([call]))
            except ModelFileError:
                lost.append(call)
            else:
                step.called(Tier.DISK, (call,))
        if ram:
            step.called(Tier.RAM, ram)
            values.update(self._computed(ram))
        if lost:
            self._from_holders(tuple(lost), values)

    def _from_holders(
        self, calls: tuple[ExpertRows, ...], values: dict[int, Floats]
    ) -> None:
        """Have workers compute what the disk has lost, once there are any."""
        network = self.caller.places.network
        if network is None:
            raise self._unavailable(calls)
        plan = LayerPlan(layer=self.plan.layer, stranded=calls)
        work = self.caller.submit(network, plan, self.coded, local_allowed=False)
        self._await_rest(work, values, lost=True)

    def _unavailable(self, calls: Sequence[ExpertRows]) -> ExpertsUnavailable:
        experts = ", ".join(str(call.expert) for call in calls)
        return ExpertsUnavailable(
            f"layer {self.plan.layer}: the model file has lost expert {experts}, "
            "and no worker gives it",
            rows=rows_of(calls),
        )

    def _computed(self, calls: Sequence[ExpertRows]) -> dict[int, Floats]:
        places = self.caller.places
        jobs = [
            KernelCall(
                weights=self._weights(call.expert),
                rows=None if len(self.routing.experts) == 1 else self.rows[call.expert],
            )
            for call in calls
        ]
        start = time.perf_counter()
        try:
            results = places.kernel.expert_values(jobs, self.coded, places.profile)
        except NonFinite as error:
            experts = ", ".join(str(call.expert) for call in calls)
            raise NotFinite(
                f"layer {self.plan.layer}, expert {experts}: {error}",
                rows=self._not_finite(calls),
            ) from error
        n_rows = sum(len(call.rows) for call in calls)
        places.cost.observe_compute(time.perf_counter() - start, n_rows)
        return {call.expert: y for call, y in zip(calls, results, strict=True)}

    def _not_finite(self, calls: Sequence[ExpertRows]) -> set[int]:
        """Return the rows of some calls whose results are not finite."""
        places, found = self.caller.places, set()
        for call in calls:
            for row in call.rows:
                only = KernelCall(
                    weights=self._weights(call.expert), rows=np.array([row], np.int64)
                )
                try:
                    places.kernel.expert_values([only], self.coded, places.profile)
                except NonFinite:
                    found.add(row)
        return found

    def _weights(self, expert: int) -> ExpertWeights:
        resident = self.at_hand.get(expert)
        if resident is not None:
            return resident
        return self.caller.places.disk.load(ExpertId(self.plan.layer, expert))

    def _check(self, ticket: CheckTicket, values: dict[int, Floats]) -> None:
        """Compare one call of a remote answer; if it differs, take none of them."""
        network = self.caller.places.network
        if network is None:
            return
        sample = ticket.sample
        try:
            mine = self._computed([sample])[sample.expert]
        except ModelFileError:
            network.report(ticket, None)
            return
        passed = mine.tobytes() == values[sample.expert].tobytes()
        network.report(ticket, passed)
        if not passed:
            try:
                values.update(self._computed(ticket.calls))
            except ModelFileError:
                self._from_holders(ticket.calls, values)
