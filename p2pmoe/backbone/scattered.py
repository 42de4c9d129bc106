"""The layer's routed experts, wherever they are: an `ExpertCaller` for a decode thread.

`begin` plans the layer, codes its rows once, hands the remote part to the dispatcher
and lets the disk begin to read; `finish` (pending_layer.py) does the rest. Without a
network nothing is ever remote and this is the single-process oracle.
"""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from mobile_worker.arithmetic.coding import ExpertInput, Floats
from mobile_worker.arithmetic.errors import NonFinite
from mobile_worker.arithmetic.matrix import ExpertWeights
from mobile_worker.expert_id import ExpertId
from p2pmoe.backbone.layer_at_hand import LayerAtHand
from p2pmoe.backbone.pending_layer import LayerInput, ScatteredPending, StepRun
from p2pmoe.backbone.places import ExpertPlaces, Holders, Network
from p2pmoe.backbone.plan import ExpertRows, LayerPlan, LayerQuestion, plan_layer
from p2pmoe.backbone.row_hashes import keep_input_hashes
from p2pmoe.backbone.speculation.stand_in import StandIns
from p2pmoe.backbone.trace import StepTrace
from p2pmoe.config import DiskPolicy
from p2pmoe.errors import Cancelled, NotFinite
from p2pmoe.model.combine import rows_by_expert
from p2pmoe.model.experts import PendingExperts, Routing
from p2pmoe.model.native_operations import operations_for
from p2pmoe.model.products import products_for

__all__ = [
    "ExpertPlaces",
    "Holders",
    "Network",
    "ScatteredExperts",
]

Indices = npt.NDArray[np.int64]


class ScatteredExperts:
    """The experts of one step; one decode thread at a time."""

    def __init__(
        self,
        places: ExpertPlaces,
        step: StepTrace,
        deadline: float,
        patience_s: float | None = None,
        *,
        stand_ins: StandIns | None = None,
    ) -> None:
        """Serve one step; `deadline` is monotonic seconds.

        A layer waits at most `patience_s` for experts that nobody holds, None until the
        deadline. `stand_ins` are taught by what absent experts answer.
        """
        self.stand_ins = stand_ins
        self.places = places
        self.step = step
        self.deadline = deadline
        self.patience_s = patience_s
        self.operations = operations_for(places.kernel)
        self.products = products_for(places.kernel)

    def begin(self, layer: int, hidden: Floats, routing: Routing) -> PendingExperts:
        """Plan a layer and start its calls.

        Raises:
            Cancelled: nobody wants the step any more.
            NotFinite: a value of `hidden` is not finite.
            ExpertsUnavailable: an expert is nowhere, and the policy does not wait.
        """
        if self.step.cancelled:
            raise Cancelled("the request was cancelled")
        places = self.places
        places.use.add(layer, routing.experts)
        keep_input_hashes(self.step, layer, hidden)
        needed = set(routing.experts.ravel().tolist())
        resident = places.hot.layer(layer)
        at_hand = {expert: resident[expert] for expert in needed if expert in resident}
        if places.prefetch is not None and len(at_hand) < len(needed):
            self._take_fetched(layer, routing, needed, at_hand)
        pending: PendingExperts
        if len(at_hand) == len(needed):
            pending = self._at_hand(layer, hidden, routing, at_hand)
        else:
            pending = self._scattered(layer, hidden, routing, at_hand)
        if places.network is None:
            places.disk.foresee(layer, hidden, routing.experts)
        return pending

    def _take_fetched(
        self,
        layer: int,
        routing: Routing,
        needed: set[int],
        at_hand: dict[int, ExpertWeights],
    ) -> None:
        """Add what was fetched for this pass to what is at hand."""
        step, cold = self.step, needed - at_hand.keys()
        if step.ahead is not None:
            fetched = step.ahead.layer(layer)
            hits = {expert: fetched[expert] for expert in cold if expert in fetched}
            at_hand.update(hits)
            if hits and step.record.keeps_layers:
                rows = rows_by_expert(routing)
                calls = [
                    ExpertRows(expert=e, rows=tuple(rows[e].tolist())) for e in hits
                ]
                step.record.prefetched(layer, calls)
        if self.places.prefetch is not None:
            self.places.prefetch.needed(step, layer, cold)

    def _at_hand(
        self,
        layer: int,
        hidden: Floats,
        routing: Routing,
        weights: Mapping[int, ExpertWeights],
    ) -> LayerAtHand:
        return LayerAtHand(
            layer=layer,
            hidden=hidden,
            routing=routing,
            weights=weights,
            step=self.step,
            places=self.places,
            products=self.products,
            operations=self.operations,
            stand_ins=self.stand_ins,
        )

    def _scattered(
        self,
        layer: int,
        hidden: Floats,
        routing: Routing,
        at_hand: Mapping[int, ExpertWeights],
    ) -> ScatteredPending:
        places = self.places
        rows = rows_by_expert(routing)
        plan = self._plan(layer, rows, at_hand)
        self.step.record.asked(plan)
        pending = ScatteredPending(
            StepRun(
                places=places,
                step=self.step,
                deadline=self.deadline,
                patience_s=self.patience_s,
                operations=self.operations,
                stand_ins=self.stand_ins,
            ),
            plan,
            LayerInput(
                hidden=hidden,
                coded=self._coded(layer, hidden),
                routing=routing,
                rows=rows,
                at_hand=at_hand,
            ),
        )
        pending.start()
        return pending

    def _coded(self, layer: int, hidden: Floats) -> ExpertInput:
        places = self.places
        try:
            return places.file.code(layer, hidden, places.kernel)
        except NonFinite as error:
            wrong = np.nonzero(~np.isfinite(hidden).all(axis=1))[0].tolist()
            raise NotFinite(f"layer {layer}: {error}", rows=wrong) from error

    def _plan(
        self,
        layer: int,
        rows: Mapping[int, Indices],
        at_hand: Mapping[int, ExpertWeights],
    ) -> LayerPlan:
        places = self.places
        network = places.network
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
                row_bytes=places.row_bytes,
                expert_bytes=places.hot.sizes.get(ExpertId(layer, 0), 0),
            )
        )
